//go:build race

package keepprocessor

const raceEnabled = true
