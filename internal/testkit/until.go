package testkit

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Slowness is how many times slower than real this machine is, where that is known: an emulated one, in
// `make test-kernels`, whose environment has TARE_TEST_SLOW.
var Slowness = slowness(os.Getenv("TARE_TEST_SLOW"))

func slowness(text string) int {
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 100 {
		fmt.Fprintf(os.Stderr, "TARE_TEST_SLOW is %q, not a number from 1 to 100\n", text)
		os.Exit(2)
	}
	return n
}

// margin is how many times longer than its limit is waited for something: that costs nothing but where the test fails.
const margin = 4

// Patient is how long something may take now that has a limit on an idle machine, where Until cannot be used: in a
// client's time-out.
func Patient(limit time.Duration) time.Duration {
	return time.Duration(float64(margin*Slowness) * Busy() * float64(limit))
}

// Until polls until the condition holds, and fails the test if that takes four times as long as the limit. The limit
// is for an idle machine: while more threads want to run than there are CPUs, its time passes more slowly.
func Until(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	defer Waited(t, time.Now(), what)
	if begun := time.Now(); !ComesTrue(limit, holds) {
		t.Fatalf("not within %v (a limit of %v, %.1f threads for each CPU): %s", time.Since(begun).Round(time.Millisecond), limit, Busy(), what)
	}
}

// ComesTrue is Until without a test: whether the condition came true.
func ComesTrue(limit time.Duration, holds func() bool) bool {
	d := NewDeadline(limit)
	for pause := time.Millisecond; !holds(); pause = min(2*pause, 50*time.Millisecond) {
		if d.Over() {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// Deadline is the end of a limit of time, as Until has it.
type Deadline struct {
	left  time.Duration
	last  time.Time // when left was true
	busy  float64
	asked time.Time // when busy was
}

// NewDeadline begins a limit.
func NewDeadline(limit time.Duration) *Deadline {
	return &Deadline{left: margin * time.Duration(Slowness) * limit, last: time.Now()}
}

// Over tells whether the limit has ended. It is asked again and again, by one goroutine.
func (d *Deadline) Over() bool {
	now := time.Now()
	if now.Sub(d.asked) > time.Second {
		d.busy, d.asked = Busy(), now
	}
	d.left -= time.Duration(float64(now.Sub(d.last)) / d.busy)
	d.last = now
	return d.left < 0
}

// Busy is how many threads want to run for each CPU, now or on average of the last minute; at least 1.
func Busy() float64 {
	text, err := os.ReadFile("/proc/loadavg") // proc(5): averages of 1, 5 and 15 minutes, running/all
	if err != nil {
		return 1
	}
	return busy(string(text), runtime.NumCPU())
}

func busy(loadavg string, cpus int) float64 {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 1
	}
	average, err1 := strconv.ParseFloat(fields[0], 64)
	running, _, _ := strings.Cut(fields[3], "/")
	now, err2 := strconv.ParseFloat(running, 64)
	if err1 != nil || err2 != nil {
		return 1
	}
	return max(1, average/float64(cpus), now/float64(cpus))
}
