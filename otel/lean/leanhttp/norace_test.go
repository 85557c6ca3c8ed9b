//go:build !race

package leanhttp_test

const raceEnabled = false
