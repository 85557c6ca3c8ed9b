package integration

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// The wall clock is set an hour ahead, and two hours back, while requests are sent, and everything
// stands still for a while, as when a machine is suspended: every trace is whole, a span takes as
// long as it took, and begins where the clock is then.
func TestClockSteps(t *testing.T) {
	alone(t, "the clock of the host is set")
	if testkit.Slowness == 1 {
		t.Skip("sets the clock of the machine: make test-kernels TESTS=TestClockSteps does it in emulated ones")
	}
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	begun := time.Now() // with the monotonic clock, which no step changes
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 8, Rate: 100, AppendPath: c.AppendPath})
	l.more(100)
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
		setClock(t, step)
		l.more(100)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, pid := range append(c.PIDs(), a.PID()) {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
		}
		if sig == syscall.SIGSTOP {
			time.Sleep(3 * time.Second) // nothing happens meanwhile that could be waited for
		}
	}
	l.more(100)
	r := l.end()
	m := a.settle()
	spans := s.all()
	wantComplete(t, judge(t, spans, shapeOf(t, "nginx")), m, int(r.OK), 0.999) //nolint:gosec // hundreds
	took := time.Since(begun)
	ahead, back, there := 0, 0, 0
	for i := range spans {
		sp := &spans[i]
		if sp.End < sp.Start || time.Duration(sp.End-sp.Start) > took { //nolint:gosec // of a test
			t.Errorf("a span takes %v, in a test of %v", time.Duration(sp.End)-time.Duration(sp.Start), took) //nolint:gosec // of a test
		}
		switch off := time.Duration(int64(sp.Start) - begun.UnixNano()); { //nolint:gosec // of a test
		case off > 30*time.Minute:
			ahead++
		case off < -30*time.Minute:
			back++
		default:
			there++
		}
	}
	t.Logf("%d spans begin an hour ahead, %d an hour back, %d at the time that it was", ahead, back, there)
	if ahead == 0 || back == 0 || there == 0 {
		t.Errorf("spans do not follow the clock: %d ahead, %d back, %d there", ahead, back, there)
	}
}

// setClock sets the wall clock by a step.
func setClock(t *testing.T, step time.Duration) {
	t.Helper()
	now := unix.NsecToTimespec(time.Now().Add(step).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
		t.Fatalf("set the clock: %v", err)
	}
}
