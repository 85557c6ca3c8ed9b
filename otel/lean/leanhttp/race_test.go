//go:build race

package leanhttp_test

// The race detector allocates on its own.
const raceEnabled = true
