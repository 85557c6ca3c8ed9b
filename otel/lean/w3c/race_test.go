//go:build race

package w3c_test

// The race detector allocates on its own.
const raceEnabled = true
