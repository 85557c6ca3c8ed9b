//go:build race

package redactprocessor

const raceEnabled = true
