package integration

import "github.com/tare-trace/tare/internal/testkit"

// few is a number of requests on this machine, never so few that they say nothing.
func few(n int) int { return max(n/testkit.Slowness, min(n, 200)) }

// spare is how many requests more than a share of few may be incomplete or in two
// traces: the kernel side does not link what has waited for a second, and says so,
// and emulated machines stand still for longer.
var spare = min(testkit.Slowness-1, 1)
