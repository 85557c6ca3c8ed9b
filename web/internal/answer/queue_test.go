package answer

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/store"
)

// queue is one of which a test says how much memory there is. A client is named by a header.
func queue(limit int64) *Queue {
	q := NewQueue(func(r *http.Request) string { return r.Header.Get("Client") })
	q.limit = limit
	q.live = func() (int64, int64) { return 0, math.MaxInt64 }
	return q
}

// asking is a server whose queries wait until they are let go, or ask for memory before.
type asking struct {
	q       *Queue
	h       http.Handler
	running atomic.Int32
	most    atomic.Int32
	held    atomic.Int64 // bytes
	peak    atomic.Int64
	end     chan struct{}
	done    sync.WaitGroup
}

func newAsking(t *testing.T, q *Queue, timeout time.Duration) *asking {
	a := &asking{q: q, end: make(chan struct{})}
	a.h = q.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Need") == "-1" { // small and quick
			return
		}
		var need int64
		if _, err := fmt.Sscan(r.Header.Get("Need"), &need); err == nil {
			may, err := store.AskOf(r.Context())(r.Context(), need, 0)
			if err != nil {
				status, _ := Status(err)
				w.WriteHeader(status)
				return
			}
			rise(&a.peak, a.held.Add(may*factor))
			defer a.held.Add(-may * factor)
		}
		most := a.running.Add(1)
		for was := a.most.Load(); most > was && !a.most.CompareAndSwap(was, most); was = a.most.Load() {
		}
		defer a.running.Add(-1)
		select {
		case <-a.end:
		case <-r.Context().Done():
		}
	}), timeout, func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) })
	t.Cleanup(a.done.Wait)
	return a
}

func rise(to *atomic.Int64, v int64) {
	for was := to.Load(); v > was && !to.CompareAndSwap(was, v); was = to.Load() {
	}
}

// send sends a query and returns where its status will be.
func (a *asking) send(ctx context.Context, client string, need int64) <-chan *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	r.Header.Set("Client", client)
	if need != 0 {
		r.Header.Set("Need", fmt.Sprint(need))
	}
	answer := make(chan *httptest.ResponseRecorder, 1)
	a.done.Go(func() {
		w := httptest.NewRecorder()
		a.h.ServeHTTP(w, r)
		answer <- w
	})
	return answer
}

func (a *asking) waits() int {
	a.q.mu.Lock()
	defer a.q.mu.Unlock()
	return a.q.waits
}

// Fifty queries for a large trace of one client: the small queries of all, and the large ones of another, are answered.
func TestOneClientDoesNotStarveOthers(t *testing.T) {
	q := queue(64 << 20)
	a := newAsking(t, q, time.Hour)
	var greedy []<-chan *httptest.ResponseRecorder
	for range 50 {
		greedy = append(greedy, a.send(t.Context(), "greedy", 3<<20)) // 24 MiB each: one at a time, of one client
	}
	testkit.Until(t, time.Minute, "all wait for memory but one", func() bool { return a.running.Load() == 1 && a.waits() == 49 })
	for i := range 20 {
		client := []string{"greedy", "other"}[i%2]
		if w := <-a.send(t.Context(), client, -1); w.Code != http.StatusOK {
			t.Fatalf("a small query of %s: %d", client, w.Code)
		}
	}
	// The client who came last has the next turn.
	large := a.send(t.Context(), "other", 3<<20)
	testkit.Until(t, time.Minute, "a large query of another client runs", func() bool { return a.running.Load() == 2 })
	close(a.end)
	if w := <-large; w.Code != http.StatusOK {
		t.Errorf("the large query of another client: %d", w.Code)
	}
	for _, g := range greedy {
		if w := <-g; w.Code != http.StatusOK {
			t.Errorf("a large query: %d", w.Code)
		}
	}
	a.done.Wait()
	if a.peak.Load() > 64<<20 {
		t.Errorf("%d MiB at once", a.peak.Load()>>20)
	}
	if len(q.clients) != 0 || q.held != 0 || q.waits != 0 || q.runs != [lanes]int{} {
		t.Errorf("left: %+v", q)
	}
}

// Of queries that all could run, each client has its part.
func TestClientsTakeTurns(t *testing.T) {
	q := queue(64 << 20)
	a := newAsking(t, q, time.Hour)
	for range 40 {
		a.send(t.Context(), "many", 0)
	}
	testkit.Until(t, time.Minute, "the client has what one may have", func() bool { return a.running.Load() == int32(q.each[smallLane]) })
	if free := q.most[smallLane] - q.each[smallLane]; free < 1 {
		t.Fatalf("%d places are free", free)
	}
	few := a.send(t.Context(), "few", 0)
	testkit.Until(t, time.Minute, "another client's query runs", func() bool { return a.running.Load() == int32(q.each[smallLane])+1 })
	close(a.end)
	if w := <-few; w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}

func TestWaitingIsBounded(t *testing.T) {
	q := queue(64 << 20)
	refused := map[int]int{}
	var mu sync.Mutex
	q.Refused = func(_ *http.Request, status int, _ string) {
		mu.Lock()
		defer mu.Unlock()
		refused[status]++
	}
	a := newAsking(t, q, time.Hour)
	for range q.each[smallLane] + waiting {
		a.send(t.Context(), "many", 0)
	}
	testkit.Until(t, time.Minute, "as many wait as may", func() bool { return a.waits() == waiting })
	w := <-a.send(t.Context(), "many", 0)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: %d %v", w.Code, w.Header())
	}
	other := a.send(t.Context(), "other", 0)
	testkit.Until(t, time.Minute, "another client's query runs", func() bool { return a.running.Load() == int32(q.each[smallLane])+1 })

	// Who goes away does not wait any more.
	ctx, leave := context.WithCancel(t.Context())
	holds := a.send(t.Context(), "third", 100<<20)
	testkit.Until(t, time.Minute, "it runs, and has asked", func() bool { return a.running.Load() == int32(q.each[smallLane])+2 })
	second := a.send(ctx, "third", 100<<20)
	testkit.Until(t, time.Minute, "the second waits for the memory", func() bool { return a.waits() == waiting+1 })
	leave()
	if w := <-second; w.Code != 499 {
		t.Errorf("who went away: %d", w.Code)
	}
	if n := a.waits(); n != waiting {
		t.Errorf("%d wait", n)
	}
	close(a.end)
	for _, answer := range []<-chan *httptest.ResponseRecorder{other, holds} {
		if w := <-answer; w.Code != http.StatusOK {
			t.Errorf("%d", w.Code)
		}
	}
	a.done.Wait()
	if refused[http.StatusTooManyRequests] != 1 || refused[499] != 1 || len(refused) != 2 {
		t.Errorf("refused: %v", refused)
	}
}

func TestWaitingEndsWithTheDeadline(t *testing.T) {
	q := queue(64 << 20)
	a := newAsking(t, q, time.Millisecond)
	q.live = func() (int64, int64) { return 90, 100 }
	q.runs[smallLane] = 1 // one runs already
	q.collect = func() {}
	w := <-a.send(t.Context(), "c", 0)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// While memory is short one small query runs at a time, and garbage is collected: otherwise an idle process would count
// it as in use.
func TestQueriesWhileMemoryIsShort(t *testing.T) {
	q := queue(64 << 20)
	var used atomic.Int64
	used.Store(90)
	q.live = func() (int64, int64) { return used.Load(), 100 }
	q.collect = func() { used.Store(10) }
	a := newAsking(t, q, time.Hour)
	q.tidied = time.Now().Add(time.Hour) // not yet
	a.send(t.Context(), "a", 0)
	a.send(t.Context(), "b", 0)
	testkit.Until(t, time.Minute, "one runs and one waits", func() bool { return a.running.Load() == 1 && a.waits() == 1 })
	q.mu.Lock()
	q.tidied = time.Time{}
	q.mu.Unlock()
	testkit.Until(t, time.Minute, "both run", func() bool { return a.running.Load() == 2 })
	close(a.end)
}

// No order of what queries ask for makes them wait for each other for ever, or have more than there is.
func TestMemoryOfAllQueries(t *testing.T) {
	q := queue(64 << 20)
	var peak, held atomic.Int64
	var done sync.WaitGroup
	h := q.Limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		had := int64(0)
		for i := range int64(6) {
			held.Add(-had)
			had = 0
			may, err := store.AskOf(r.Context())(r.Context(), (i*7%5+1)<<20, i<<19)
			if err != nil {
				t.Error(err)
				break
			}
			had = may*factor + i<<19
			rise(&peak, held.Add(had))
		}
		held.Add(-had)
	}), time.Hour, func(http.ResponseWriter, int, string) { t.Error("refused") })
	for i := range 40 {
		done.Go(func() {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Client", fmt.Sprint(i%7))
			h.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	done.Wait()
	if p := peak.Load(); p > q.limit || p == 0 {
		t.Errorf("%d MiB at once", p>>20)
	}
	// What does not fit is cut.
	h = q.Limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if may, err := store.AskOf(r.Context())(r.Context(), 1<<40, 0); err != nil || may != q.limit/factor {
			t.Errorf("%d %v", may, err)
		}
		if may, err := store.AskOf(r.Context())(r.Context(), 1<<40, 1<<40); err != nil || may != q.limit/leastPart {
			t.Errorf("%d %v", may, err)
		}
	}), time.Hour, func(http.ResponseWriter, int, string) { t.Error("refused") })
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
}

func TestFit(t *testing.T) {
	list := make([]string, 20)
	for i := range list {
		list[i] = strings.Repeat("<", 1<<17) // six times as long in JSON
	}
	fit, left, err := Fit(list)
	size := 0
	for _, b := range fit {
		size += len(b)
	}
	if err != nil || size > MaxList || len(fit)+left != len(list) || left == 0 || len(fit) == 0 {
		t.Errorf("%d of %d bytes, %d left, %v", len(fit), size, left, err)
	}
}
