package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What a test's time went to is written as attributes of the test, which `go test -json` keeps and
// `make test-times` reads: "waited SECONDS WHAT" and "cpu SECONDS PROCESS".

// waited records that a test waited for something since a moment.
func waited(t *testing.T, since time.Time, what string) {
	if d := time.Since(since); d >= 50*time.Millisecond {
		noted(t, "waited", d, what)
	}
}

// worked records the CPU time of a process that has ended, and of those that it waited for.
func worked(t *testing.T, state *os.ProcessState, name string) {
	if state != nil {
		noted(t, "cpu", state.UserTime()+state.SystemTime(), name)
	}
}

func noted(t *testing.T, key string, d time.Duration, what string) {
	t.Attr(key, fmt.Sprintf("%.3f %s", d.Seconds(), strings.ReplaceAll(what, "\n", " ")))
}
