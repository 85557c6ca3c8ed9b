package integration

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
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
			wantSameBytes(t, s.all(), m.sampled())
		})
	}
}

// wantSameBytes requires that a call and the request that it is at the other end have the same sizes. What a connection
// carried before, while nothing was sampled, must not count; a hook may not have seen it.
func wantSameBytes(t *testing.T, spans []span.Span, most int) {
	t.Helper()
	type link struct {
		trace span.TraceID
		id    span.ID
	}
	calls := map[link]*span.Span{}
	for i := range spans {
		if s := &spans[i]; s.Kind == span.Client {
			calls[link{s.TraceID, s.ID}] = s
		}
	}
	same, differ := 0, 0
	for i := range spans {
		s := &spans[i]
		call := calls[link{s.TraceID, s.Parent}]
		if call == nil || s.Kind != span.Server {
			continue
		}
		of := func(s *span.Span, key string) int64 {
			a, _ := s.Attr(key)
			return a.Num
		}
		if of(s, semconv.BytesSent) == of(call, semconv.BytesReceived) && of(s, semconv.BytesReceived) == of(call, semconv.BytesSent) {
			same++
		} else if differ++; differ <= 3 {
			t.Errorf("a call differs from what its server has seen:\n%s\n%s", describe(call), describe(s))
		}
	}
	if same < most/2 {
		t.Errorf("%d calls were compared, %d of them differ; want at least %d", same+differ, differ, most/2)
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
