//go:build race

package leanredis_test

// The race detector allocates on its own.
const raceEnabled = true
