package integration

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// slowness is how many times slower than real this machine is, where that is
// known: an emulated one, in `make test-kernels`. Limits of time are so many times
// longer, and so many times fewer requests are sent; what must hold for them is the
// same.
var slowness = func() int {
	text := os.Getenv("TARE_TEST_SLOW")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 100 {
		fmt.Fprintf(os.Stderr, "TARE_TEST_SLOW is %q, not a number from 1 to 100\n", text)
		os.Exit(2)
	}
	return n
}()

// patient is a limit of time on this machine.
func patient(d time.Duration) time.Duration { return d * time.Duration(slowness) }

// few is a number of requests on this machine, never so few that they say nothing.
func few(n int) int { return max(n/slowness, min(n, 200)) }

// spare is how many requests more than a share of few may be incomplete or in two
// traces: the kernel side does not link what has waited for a second, and says so,
// and emulated machines stand still for longer.
var spare = min(slowness-1, 1)
