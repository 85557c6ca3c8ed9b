package coordinator

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a coordinator that takes keeps, and has none of others.
type fake struct {
	answer http.HandlerFunc // nil: as a coordinator does
	mu     sync.Mutex
	taken  map[span.TraceID]int
	t      *testing.T
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.answer != nil {
		f.answer(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	request, err := keep.Decode(body)
	if err != nil || len(body) > keep.MaxBody || r.URL.Path != keep.Path || r.Header.Get("Content-Type") != "application/json" {
		f.t.Errorf("%s, %d bytes, %v: %v", r.URL, len(body), r.Header, err)
	}
	f.mu.Lock()
	for _, k := range request.Keeps {
		f.taken[k.TraceID]++
	}
	f.mu.Unlock()
	wait := time.NewTimer(time.Duration(request.Wait) * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-r.Context().Done():
	}
	_ = json.NewEncoder(w).Encode(keep.Answer{After: keep.Position{Epoch: 1}})
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.taken)
}

func serve(t *testing.T, f *fake) string {
	t.Helper()
	f.t, f.taken = t, map[span.TraceID]int{}
	s := httptest.NewServer(f)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// started is a client that runs until the test ends.
type started struct {
	*Client
	log *testkit.Log
	end func()
}

func start(t *testing.T, o Options) started {
	t.Helper()
	s := started{log: &testkit.Log{}}
	o.Log = slog.New(slog.NewTextHandler(s.log, nil))
	var err error
	if s.Client, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	s.end = func() { cancel(); <-done }
	t.Cleanup(s.end)
	return s
}

func trace(n int) (id span.TraceID) {
	binary.BigEndian.PutUint32(id[:], uint32(n))
	return id
}

// said is how many lines of the log have a text, and are about an address.
func (s started) said(what, about string) (n int) {
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, what) && strings.Contains(line, about) {
			n++
		}
	}
	return n
}

const (
	away = "sampling is unreachable"
	back = "connected to a coordinator"
)

func TestWrongEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"collector:4319": "URL", "grpc://collector": "URL", "https://": "URL", "https://a:s3cret@collector": "URL", "://": "URL",
	} {
		if _, err := New(Options{Endpoints: []string{endpoint}}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// Requests stay within a coordinator's bounds, whatever the names are, and each keep is sent to each coordinator once.
func TestSendsOnceToEach(t *testing.T) {
	a, b := &fake{}, &fake{}
	c := start(t, Options{Endpoints: []string{serve(t, a), serve(t, b) + keep.Path}})
	const n = maxQueue
	for i := range n {
		c.Keep(keep.Keep{TraceID: trace(i + 1), Service: strings.Repeat("\x00<\xff", i%100), Reason: keep.Error, Time: time.Now()})
	}
	testkit.Until(t, time.Minute, "all keeps arrive", func() bool { return a.count() == n && b.count() == n })
	testkit.Until(t, time.Minute, "they are counted", func() bool { return c.Stats().Sent == 2*n })
	for _, f := range []*fake{a, b} {
		for id, times := range f.taken {
			if times != 1 {
				t.Errorf("%v was sent %d times", id, times)
			}
		}
	}
	if s := c.Stats(); s.Dropped != 0 || s.Endpoints != 2 {
		t.Errorf("%+v", s)
	}
}

// A coordinator that does not answer, or is not there, delays nobody; what finds no room is counted; the rest is sent
// when it is back. Both changes are logged once.
func TestAway(t *testing.T) {
	l := testkit.Listen(t, "127.0.0.1:0")
	address := l.Addr().String()
	_ = l.Close()
	other := &fake{}
	stuck := &fake{answer: func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else it is not told that the client has gone
		<-r.Context().Done()
	}}
	c := start(t, Options{Endpoints: []string{"http://" + address, serve(t, stuck), serve(t, other)}})
	testkit.Until(t, time.Minute, "the one that is away is logged", func() bool { return c.said(away, address) == 1 })
	for i := range maxQueue {
		c.Keep(keep.Keep{TraceID: trace(i + 1), Reason: keep.Error})
	}
	testkit.Until(t, time.Minute, "the one that answers has all", func() bool { return other.count() == maxQueue })
	for i := range 10 {
		c.Keep(keep.Keep{TraceID: trace(maxQueue + i + 1), Reason: keep.Slow})
	}
	if s := c.Stats(); s.Dropped < 20 {
		t.Errorf("%+v, want 20 dropped", s)
	}
	f := &fake{t: t, taken: map[span.TraceID]int{}}
	server := &httptest.Server{Listener: testkit.Listen(t, address), Config: &http.Server{Handler: f}}
	server.Start()
	testkit.Until(t, time.Minute, "it is back", func() bool { return c.said(back, address) == 1 && c.Stats().Reachable > 0 })
	testkit.Until(t, time.Minute, "it has what was queued, unless it got too old", func() bool {
		return f.count() == maxQueue || c.Stats().Dropped >= maxQueue
	})
	server.CloseClientConnections()
	server.Close()
	testkit.Until(t, time.Minute, "it is away again", func() bool { return c.said(away, address) == 2 })
	if c.said(back, address) != 1 {
		t.Errorf("logged:\n%s", c.log)
	}
}

// What is no coordinator, or refuses the client, is not reachable, and gets no second chance to see the headers.
func TestStrangers(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request was redirected, with %v", r.Header)
	}))
	t.Cleanup(foreign.Close)
	for name, s := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"garbage":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "not a coordinator's"},
		"other JSON":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, "no epoch"},
		"a wrong id":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keeps": [{"trace_id": "x"}]}`)) }, "trace_id"},
		"endless":         {endless, "not a coordinator's"},
		"unauthenticated": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you", http.StatusUnauthorized) }, "status 401: who are you"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, foreign.URL, http.StatusTemporaryRedirect)
		}, "status 307"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("{"))
		}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{answer: s.answer}
			c := start(t, Options{Endpoints: []string{serve(t, f)}, Headers: map[string]string{"Authorization": "Bearer t0ken"}, Kept: func(k []keep.Keep) { t.Errorf("kept %v", k) }})
			testkit.Until(t, time.Minute, "it is logged", func() bool { return c.said(away, "") == 1 })
			if !strings.Contains(c.log.String(), s.want) || strings.Contains(c.log.String(), "t0ken") || c.Stats().Reachable != 0 {
				t.Errorf("want %q: %s", s.want, c.log)
			}
		})
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
			return
		}
	}
}

// Keeps that a coordinator refuses as wrong are dropped; after another failure they are sent again.
func TestRefusedAndRetried(t *testing.T) {
	var mu sync.Mutex
	statuses := []int{503, 400, 500}
	f := &fake{}
	f.answer = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		status := 0
		if !bytes.Contains(body, []byte("after")) && len(statuses) > 0 {
			status, statuses = statuses[0], statuses[1:]
		}
		mu.Unlock()
		if status > 0 {
			http.Error(w, "no", status)
			return
		}
		_ = json.NewEncoder(w).Encode(keep.Answer{After: keep.Position{Epoch: 1}, Limited: 99})
	}
	c := start(t, Options{Endpoints: []string{serve(t, f)}})
	c.Keep(keep.Keep{TraceID: trace(1), Reason: keep.Error})
	testkit.Until(t, time.Minute, "the first is refused", func() bool { return c.Stats().Dropped == 1 })
	c.Keep(keep.Keep{TraceID: trace(2), Reason: keep.Error})
	testkit.Until(t, time.Minute, "the second is sent", func() bool { return c.Stats().Sent == 1 })
	if s := c.Stats(); s.Limited != 1 || s.Dropped != 1 || c.said("refuses keeps", "") != 1 {
		t.Errorf("%+v\n%s", s, c.log)
	}
}

// What is too old is dropped; what is queued when the agent ends is sent.
func TestOldAndLast(t *testing.T) {
	f := &fake{}
	c, err := New(Options{Endpoints: []string{serve(t, f)}})
	if err != nil {
		t.Fatal(err)
	}
	e := c.endpoints[0]
	e.queue(queued{keep.Keep{TraceID: trace(1), Reason: keep.Error}, time.Now().Add(-maxQueued - time.Second)})
	e.queue(queued{keep.Keep{TraceID: trace(2), Reason: keep.Error}, time.Now()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Run(ctx)
	if s := c.Stats(); s.Dropped != 1 || s.Sent != 1 || f.taken[trace(2)] != 1 {
		t.Errorf("%+v, %v", s, f.taken)
	}
}
