//go:build !race

package slogtrace_test

const raceEnabled = false
