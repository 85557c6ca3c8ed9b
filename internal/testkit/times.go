package testkit

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Waited records that a test waited for something since a moment, as its attribute "waited SECONDS WHAT".
func Waited(t testing.TB, since time.Time, what string) {
	if d := time.Since(since); d >= 50*time.Millisecond {
		Note(t, "waited", d, what)
	}
}

// Worked records the CPU time of a process that has ended, and of those that it waited for, as the test's attribute
// "cpu SECONDS PROCESS".
func Worked(t testing.TB, state *os.ProcessState, process string) {
	if state != nil {
		Note(t, "cpu", state.UserTime()+state.SystemTime(), process)
	}
}

// Note records a time as an attribute of the test.
func Note(t testing.TB, key string, d time.Duration, what string) {
	t.Attr(key, fmt.Sprintf("%.3f %s", d.Seconds(), strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, what)))
}
