package integration

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/lab/load"
)

// overWire has tags written into segments where both ends are on one host, too.
const overWire = "--same-host=false"

// Every request sampled: at least 99.9% of the traces are complete, in the tier that is
// chosen and in the one that is there to be compared.
func TestEveryRequest(t *testing.T) {
	t.Parallel()
	need(t)
	mountTracefs(t)
	syscalls := []string{"TARE_TIER=syscall"}
	for chain, requests := range map[string]int{"nginx": few(6000), "shop": few(3000)} {
		for _, way := range []struct {
			name      string
			env, args []string
		}{
			{chain, nil, nil},
			{chain + " over the wire", nil, []string{overWire}},
			{chain + " at system calls", syscalls, nil},
		} {
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				c, s := start(t, chain), newSink(t)
				a := trace(t, s, way.env, append(ports(c), way.args...)...)
				send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: uint64(requests), AppendPath: c.AppendPath})
				m := a.settle()
				wantComplete(t, judge(t, s.all(), shapeOf(t, chain)), m, requests, 0.999)
			})
		}
	}
}

// mountTracefs makes the tracepoints of system calls reachable, as distributions do.
func mountTracefs(t *testing.T) {
	t.Helper()
	if err := unix.Mount("nodev", "/sys/kernel/tracing", "tracefs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatalf("mount tracefs: %v", err)
	}
}

// One request of ten sampled: chance decides which, and all of them are
// complete. What is not sampled leaves no span at all.
func TestOneOfTen(t *testing.T) {
	t.Parallel()
	need(t)
	for chain, requests := range map[string]int{"nginx": few(20000), "shop": few(6000)} {
		t.Run(chain, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, chain), newSink(t)
			a := trace(t, s, nil, append(ports(c), ratio("0.1")...)...)
			send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: uint64(requests), AppendPath: c.AppendPath})
			m := a.settle()
			r := judge(t, s.all(), shapeOf(t, chain))
			wantRate(t, m.sampled(), requests, 0.1)
			wantRoots(t, m, m.sampled()+m.unsampled(), requests)
			wantComplete(t, r, m, m.sampled(), 0.999)
		})
	}
}

// What is said for all services fills in where nothing is known: nginx is known.
func TestLinkingForAll(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append(ports(c), "--linking", "thread")...)
	requests := few(6000)
	send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: uint64(requests), AppendPath: c.AppendPath})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.999)
}
