//go:build race

package slogtrace_test

const raceEnabled = true
