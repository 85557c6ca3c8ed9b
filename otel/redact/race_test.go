//go:build race

package redact_test

const raceEnabled = true
