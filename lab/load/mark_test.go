package load

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every request is in one interval, whatever ends it, while marks are taken as
// fast as they can be.
func TestMarksAddUpToTheWhole(t *testing.T) {
	for name, rate := range map[string]float64{"closed": 0, "open": 4000} {
		t.Run(name, func(t *testing.T) {
			srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path[len(req.URL.Path)-1] == '7' {
					http.Error(w, "no", http.StatusServiceUnavailable)
					return
				}
				hello(w, req)
			})
			g, err := Start(context.Background(), Options{
				Addr: srv.addr(), Connections: 16, Requests: 2000, Rate: rate, AppendPath: appendPath,
			})
			require.NoError(t, err)
			var sum Result
			sum.Errors = map[string]uint64{}
			sum.Latency, sum.SinceSent, sum.Lag = newHistogram(), newHistogram(), newHistogram()
			add := func(r Result) {
				sum.OK += r.OK
				sum.Failed += r.Failed
				sum.Offered += r.Offered
				sum.Dials += r.Dials
				sum.Elapsed += r.Elapsed
				sum.Blocked += r.Blocked
				sum.CPU += r.CPU
				sum.Latency.Merge(r.Latency)
				sum.SinceSent.Merge(r.SinceSent)
				sum.Lag.Merge(r.Lag)
				for reason, n := range r.Errors {
					sum.Errors[reason] += n
				}
				if uint64(r.Latency.TotalCount()) != r.OK {
					t.Errorf("%d latencies of %d requests in one interval", r.Latency.TotalCount(), r.OK)
				}
				sum.Next = r.Next
			}
			marks := 0
			for over := false; !over; marks++ {
				select {
				case <-g.finished:
					over = true
				default:
				}
				add(g.Mark())
			}
			whole, err := g.Wait()
			if err != nil || whole.OK != 1800 || whole.Failed != 200 || whole.Offered != 2000 || marks < 3 {
				t.Fatalf("%d marks: %+v, %v", marks, whole, err)
			}
			for what, pair := range map[string][2]any{
				"ok": {sum.OK, whole.OK}, "failed": {sum.Failed, whole.Failed}, "offered": {sum.Offered, whole.Offered},
				"dials": {sum.Dials, whole.Dials}, "elapsed": {sum.Elapsed, whole.Elapsed}, "blocked": {sum.Blocked, whole.Blocked}, "cpu": {sum.CPU, whole.CPU},
				"errors": {fmt.Sprint(sum.Errors), fmt.Sprint(whole.Errors)}, "next": {sum.Next, whole.Next},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s: the intervals have %v, the whole has %v", what, pair[0], pair[1])
				}
			}
			if !sum.Latency.Equals(whole.Latency) || !sum.SinceSent.Equals(whole.SinceSent) || !sum.Lag.Equals(whole.Lag) {
				t.Error("the histograms of the intervals differ from the whole's")
			}
			// 2000 requests are more than 1 ms of work, and one loop's threads do no more than it can.
			if whole.CPU < time.Millisecond || whole.CPU > whole.Elapsed*maxLoops {
				t.Errorf("%v of CPU time in %v", whole.CPU, whole.Elapsed)
			}
			if r := g.Mark(); r.OK+r.Failed+r.Offered != 0 || r.Elapsed != 0 {
				t.Errorf("after the end: %+v", r)
			}
		})
	}
}

// A warm-up leaves nothing in the window: neither its latencies nor its errors.
func TestMarkDividesTheRun(t *testing.T) {
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		if len(req.URL.Path) == len("/n/1") { // the first ten
			time.Sleep(30 * time.Millisecond)
		}
		hello(w, req)
	})
	g, err := Start(context.Background(), Options{Addr: srv.addr(), Connections: 1, Requests: 2000, AppendPath: appendPath})
	require.NoError(t, err)
	for ok, _ := g.Done(); ok < 10; ok, _ = g.Done() {
		time.Sleep(time.Millisecond)
	}
	warm := g.Mark()
	rest, err := g.Wait()
	window := g.Mark()
	if err != nil || warm.OK < 10 || warm.OK+window.OK != 2000 || warm.Next < warm.OK {
		t.Fatalf("warm-up %+v, window %+v, %v", warm, window, err)
	}
	if above(warm, 25*time.Millisecond) < 10 || above(rest, 25*time.Millisecond) < 10 {
		t.Error("the slow requests are missing in the warm-up or in the whole")
	}
	if window.OK > 0 && window.Latency.TotalCount() != int64(window.OK) {
		t.Errorf("%d latencies in the window, of %d requests", window.Latency.TotalCount(), window.OK)
	}
	if got, want := above(window, 25*time.Millisecond), above(rest, 25*time.Millisecond)-above(warm, 25*time.Millisecond); got != want {
		t.Errorf("%d slow requests in the window, want %d", got, want)
	}
}
