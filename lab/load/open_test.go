package load

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/internal/testkit"
)

// staller answers at once, but for one stretch in which nobody is answered.
func staller(t *testing.T, after uint64, stall time.Duration) *recorder {
	var requests atomic.Uint64
	var until atomic.Int64
	return newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		if requests.Add(1) == after {
			until.Store(time.Now().Add(stall).UnixNano())
		}
		if d := time.Until(time.Unix(0, until.Load())); d > 0 {
			time.Sleep(d)
		}
		hello(w, req)
	})
}

// above counts the latencies that are greater than d.
func above(r Result, d time.Duration) int64 { return longer(r.Latency, d) }

func longer(h *hdrhistogram.Histogram, d time.Duration) (n int64) {
	for _, b := range h.Distribution() {
		if b.From > int64(d) {
			n += b.Count
		}
	}
	return n
}

// This is the point of an open loop: a stall is charged with every request that
// was due in it, and those that wait longest are those that were due first. A
// closed loop only sees as many slow requests as it has connections.
func TestOpenLoopSeesAStallThatAClosedLoopHides(t *testing.T) {
	const (
		rate  = 1000
		stall = 200 * time.Millisecond
		conns = 2
	)
	open, err := Run(context.Background(), Options{
		Addr: staller(t, 300, stall).addr(), Connections: conns, Requests: 1000, Rate: rate, AppendPath: appendPath,
	})
	if err != nil || open.OK != 1000 {
		t.Fatalf("%+v, %v", open, err)
	}
	closed, err := Run(context.Background(), Options{
		Addr: staller(t, 300, stall).addr(), Connections: conns, Requests: 1000, AppendPath: appendPath,
	})
	if err != nil || closed.OK != 1000 {
		t.Fatalf("%+v, %v", closed, err)
	}
	// Requests were due every millisecond of the stall; each of them waited for
	// the rest of it. Machines may be slower than that, never faster.
	for _, at := range []time.Duration{20, 100, 180} {
		if got, want := above(open, at*time.Millisecond), int64(200-at)*9/10; got < want {
			t.Errorf("open loop: %d requests took longer than %d ms, want at least %d", got, at, want)
		}
	}
	if p99, _ := open.Quantile(0.99); p99 < stall*9/10 {
		t.Errorf("open loop: p99 is %v, with a stall of %v", p99, stall)
	}
	if got := above(closed, stall*9/10); got > conns {
		t.Errorf("closed loop: %d requests took as long as the stall, with %d connections", got, conns)
	}
	// Uncorrected, an open loop hides it as well: what waited for a connection counts from when it had one.
	if got, all := longer(open.SinceSent, stall*9/10), open.SinceSent.TotalCount(); got > conns || all != 1000 {
		t.Errorf("open loop, uncorrected: %d of %d requests took as long as the stall, with %d connections", got, all, conns)
	}
	assert.True(t, closed.SinceSent.Equals(closed.Latency), "in a closed loop, uncorrected latency is not the latency")
	if open.Blocked < stall/2 || !strings.Contains(strings.Join(open.Limits, "\n"), "all connections busy") {
		t.Errorf("blocked for %v; limits %q", open.Blocked, open.Limits)
	}
}

func TestRateIsKept(t *testing.T) {
	srv := newRecorder(t, hello)
	const rate, duration = 777.0, 700 * time.Millisecond
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 50, Rate: rate, Duration: duration, AppendPath: appendPath,
	})
	// 777/s · 0.7 s = 543.9, and the first is due at 0.
	if err != nil || res.Offered != 544 || res.OK+res.Unsent != 544 || res.Next != res.OK || res.Failed != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	srv.each(t, 0, res.OK)
	// None may be sent before it is due.
	assert.GreaterOrEqual(t, res.Elapsed, (schedule{rate: rate}).at(543))
	assert.Equal(t, int64(res.OK), res.Lag.TotalCount(), "lags of %d requests", res.OK)
}

// With one connection and a server that takes twice the time that the rate
// allows, every request waits for its turn, longer and longer, and is sent.
func TestDueRequestsWaitAndAreSentInOrder(t *testing.T) {
	var mu sync.Mutex // the server has a goroutine for each connection, though there is but one
	var order []string
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		order = append(order, req.URL.Path)
		mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		hello(w, req)
	})
	const requests = 40
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 1, Rate: 200, Requests: requests, AppendPath: appendPath,
	})
	if err != nil || res.OK != requests || res.Unsent != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	srv.each(t, 0, requests)
	mu.Lock()
	defer mu.Unlock()
	for n, path := range order {
		require.Equal(t, string(appendPath(nil, uint64(n))), path, "request %d", n)
	}
	// The last one was due at 195 ms and answered at 400 ms or later.
	if most, _ := res.Quantile(1); most < 200*time.Millisecond {
		t.Errorf("the longest latency is %v", most)
	}
	// Half of the latencies are waiting, which is not the generator's fault.
	if p50 := time.Duration(res.Lag.ValueAtQuantile(50)); p50 > 10*time.Millisecond {
		t.Errorf("lag p50 is %v: waiting for the service was taken for lag", p50)
	}
}

func TestOverloadIsReportedAsTheServices(t *testing.T) {
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		time.Sleep(20 * time.Millisecond)
		hello(w, req)
	})
	// Two connections hold 100/s at best.
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 2, Rate: 500, Duration: 400 * time.Millisecond, LagLimit: time.Minute, AppendPath: appendPath,
	})
	if err != nil || res.Offered != 200 || res.OK == 0 || res.OK+res.Unsent != 200 || res.OK > 42 {
		t.Fatalf("%+v, %v", res, err)
	}
	srv.each(t, 0, res.OK)
	for i, want := range []string{"all connections busy", "rate not reached", "were not sent before the end"} {
		if len(res.Limits) != 3 || !strings.Contains(res.Limits[i], want) {
			t.Fatalf("limits %q, want %q as number %d", res.Limits, want, i)
		}
	}
	if res.Blocked < 200*time.Millisecond || res.Blocked > res.Elapsed {
		t.Errorf("blocked for %v of %v", res.Blocked, res.Elapsed)
	}
}

// A generator that is held up itself says so, and does not blame the service.
func TestLateGeneratorIsReported(t *testing.T) {
	srv := newRecorder(t, hello)
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 50, Rate: 1000, Requests: 100,
		AppendPath: func(dst []byte, n uint64) []byte {
			if n%20 == 0 {
				time.Sleep(15 * time.Millisecond) // what AppendPath must not do
			}
			return appendPath(dst, n)
		},
	})
	if err != nil || res.OK != 100 || len(res.Limits) == 0 || !strings.HasPrefix(res.Limits[0], "generator late") {
		t.Fatalf("%+v, %v", res, err)
	}
	if p99 := time.Duration(res.Lag.ValueAtQuantile(99)); p99 < 5*time.Millisecond {
		t.Errorf("lag p99 is %v", p99)
	}
}

func TestOpenLoopEndsWithContextAndStop(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	var reached atomic.Int64
	srv := newRecorder(t, func(_ http.ResponseWriter, req *http.Request) {
		reached.Add(1)
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	g, err := Start(ctx, Options{Addr: srv.addr(), Connections: 3, Rate: 1000, Duration: time.Hour, AppendPath: appendPath})
	require.NoError(t, err)
	testkit.Until(t, 15*time.Second, "three requests reach the server", func() bool { return reached.Load() == 3 })
	cancel()
	res, err := g.Wait()
	if !errors.Is(err, context.Canceled) || res.Aborted != 3 || res.Next != 3 || res.Offered != 3+res.Unsent {
		t.Fatalf("cancelled: %+v, %v", res, err)
	}
	g.Stop() // after the end: nothing

	idle := newRecorder(t, hello)
	g, err = Start(context.Background(), Options{Addr: idle.addr(), Connections: 3, Rate: 0.001, Duration: time.Hour, AppendPath: appendPath})
	require.NoError(t, err)
	testkit.Until(t, 15*time.Second, "a request is answered", func() bool { ok, _ := g.Done(); return ok >= 1 })
	g.Stop() // while it sleeps for 1,000 s
	if res, err = g.Wait(); err != nil || res.OK != 1 || res.Offered != 1 || len(res.Limits) != 0 && slices.ContainsFunc(res.Limits, func(s string) bool { return !strings.HasPrefix(s, "generator late") }) {
		t.Fatalf("stopped: %+v, %v", res, err)
	}
}

func TestRefusedConnectionsOfAnOpenLoop(t *testing.T) {
	srv := newRecorder(t, hello)
	addr := srv.addr()
	srv.Close()
	res, err := Run(context.Background(), Options{Addr: addr, Connections: 2, Rate: 10000, Requests: 500, AppendPath: appendPath})
	if err != nil || res.Failed != 500 || res.Errors["dial: connection refused"] != 500 || res.Dials != 500 {
		t.Fatalf("%+v, %v", res, err)
	}
}

// A server may close a connection that is idle, as it likes: the next request
// takes a new one.
func TestConnectionsThatIdleAreReplaced(t *testing.T) {
	srv := newRecorder(t, hello)
	g, err := Start(context.Background(), Options{Addr: srv.addr(), Connections: 2, Rate: 20, Requests: 8, AppendPath: appendPath})
	require.NoError(t, err)
	testkit.Until(t, 15*time.Second, "four requests are answered", func() bool { ok, _ := g.Done(); return ok >= 4 })
	srv.CloseClientConnections()
	res, err := g.Wait()
	// One request may have been under way.
	if err != nil || res.OK < 7 || res.OK+res.Failed != 8 || res.Dials < 3 {
		t.Fatalf("%+v, %v", res, err)
	}
}
