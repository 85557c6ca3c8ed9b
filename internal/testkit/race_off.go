//go:build !race

package testkit

// Race reports whether the race detector is on, which allocates and empties pools.
const Race = false
