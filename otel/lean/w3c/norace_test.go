//go:build !race

package w3c_test

const raceEnabled = false
