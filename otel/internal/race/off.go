//go:build !race

// Package race tells tests of allocations whether the race detector is on, which
// allocates and empties pools.
package race

// Enabled reports whether the race detector is on.
const Enabled = false
