package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func appendPath(dst []byte, n uint64) []byte {
	return strconv.AppendUint(append(dst, "/n/"...), n, 10)
}

// recorder is a server that remembers the numbers it was asked for.
type recorder struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[string]int
	conns atomic.Int64
}

func newRecorder(t *testing.T, answer http.HandlerFunc) *recorder {
	t.Helper()
	r := &recorder{seen: map[string]int{}}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen[req.URL.Path]++
		r.mu.Unlock()
		answer(w, req)
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.conns.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) addr() string { return r.Listener.Addr().String() }

// each checks that every number of [first, first+n) was asked for once.
func (r *recorder) each(t *testing.T, first, n uint64) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Equal(t, int(n), len(r.seen), "different paths")
	for i := first; i < first+n; i++ {
		if got := r.seen[fmt.Sprintf("/n/%d", i)]; got != 1 {
			t.Fatalf("number %d was sent %d times", i, got)
		}
	}
}

func hello(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, "hello "+req.URL.Path) }

func TestEveryNumberIsSentOnce(t *testing.T) {
	for _, closing := range []bool{false, true} {
		t.Run(fmt.Sprintf("close=%v", closing), func(t *testing.T) {
			srv := newRecorder(t, hello)
			res, err := Run(context.Background(), Options{
				Addr: srv.addr(), Connections: 7, Requests: 500, First: 1000, Close: closing, AppendPath: appendPath,
				Check: func(n uint64, body []byte) error {
					if string(body) != fmt.Sprintf("hello /n/%d", n) {
						return fmt.Errorf("body %q of number %d", body, n)
					}
					return nil
				},
			})
			if err != nil || res.OK != 500 || res.Failed != 0 || res.Next != 1500 || res.Latency.TotalCount() != 500 {
				t.Fatalf("%+v, %v", res, err)
			}
			srv.each(t, 1000, 500)
			want := int64(7)
			if closing {
				want = 500
			}
			assert.Equal(t, want, srv.conns.Load(), "connections")
		})
	}
}

func TestBodiesAndChunkedAnswers(t *testing.T) {
	const size = 300_000
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		n, err := io.Copy(io.Discard, req.Body)
		if err != nil || n != size || req.Method != http.MethodPost {
			http.Error(w, fmt.Sprintf("%s of %d bytes, %v", req.Method, n, err), http.StatusBadRequest)
			return
		}
		for range 10 {
			_, _ = w.Write(bytes.Repeat([]byte("y"), 10_000))
			w.(http.Flusher).Flush()
		}
	})
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 2, Requests: 20, BodySize: size, AppendPath: appendPath,
		Check: func(_ uint64, body []byte) error {
			if len(body) != 100_000 || strings.Trim(string(body), "y") != "" {
				return fmt.Errorf("%d bytes", len(body))
			}
			return nil
		},
	})
	if err != nil || res.OK != 20 || res.Failed != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestLongAnswers(t *testing.T) {
	body := strings.Repeat("0123456789", 10_000)
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path[len(req.URL.Path)-1]%2 == 0 {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		_, _ = io.WriteString(w, body)
	})
	check := func(_ uint64, b []byte) error {
		if string(b) != body {
			return fmt.Errorf("%d bytes", len(b))
		}
		return nil
	}
	for name, check := range map[string]func(uint64, []byte) error{"seen": check, "skipped": nil} {
		res, err := Run(context.Background(), Options{Addr: srv.addr(), Connections: 3, Requests: 200, AppendPath: appendPath, Check: check})
		if err != nil || res.OK != 200 || res.Dials != 3 {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

func TestHeadersAreSent(t *testing.T) {
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		h := req.Header
		if req.Host != "shop.example" || h.Get("Authorization") != "Basic eA==" || h.Get("X-Empty") != "" || len(h["X-Empty"]) != 1 || h.Get("User-Agent") != "tare-load" {
			http.Error(w, fmt.Sprint(req.Host, h), http.StatusBadRequest)
			return
		}
		hello(w, req)
	})
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 1, Requests: 3, AppendPath: appendPath,
		Header: map[string]string{"host": "shop.example", "Authorization": "Basic eA==", "X-Empty": ""},
	})
	if err != nil || res.OK != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
}

// Names have several addresses; the first that answers is taken.
func TestAddressesOfANameAreTriedInTurn(t *testing.T) {
	srv := newRecorder(t, hello)
	_, port, err := net.SplitHostPort(srv.addr())
	require.NoError(t, err)
	res, err := Run(context.Background(), Options{Addr: "localhost:" + port, Connections: 2, Requests: 10, AppendPath: appendPath})
	if err != nil || res.OK != 10 {
		t.Fatalf("%+v, %v", res, err)
	}
	opts := Options{Addr: srv.addr(), Connections: 1, Requests: 1, AppendPath: appendPath}
	require.NoError(t, opts.validate())
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody, err := resolve(t.Context(), dead.Addr().String())
	_ = dead.Close()
	require.NoError(t, err)
	alive, err := resolve(t.Context(), opts.Addr)
	require.NoError(t, err)
	g := &Generator{opts: opts, started: time.Now()}
	g.end.Store(math.MaxInt64)
	l, err := newLoop(g, append(nobody, alive...), 1)
	require.NoError(t, err)
	g.loops = append(g.loops, l)
	l.run()
	if l.tally.ok != 1 || l.tally.dials != 2 {
		t.Errorf("%+v", l.tally)
	}
}

// Whatever ends a run, it leaves no descriptor.
func TestDescriptorsAreClosed(t *testing.T) {
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		time.Sleep(time.Millisecond)
		hello(w, req)
	})
	gone := newRecorder(t, hello)
	nobody := gone.addr()
	gone.Close()
	sockets := func() (n int) {
		// Only what this process dialed: the server's ends close when they like.
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, fd := range fds {
			n, err := strconv.Atoi(fd.Name())
			require.NoError(t, err)
			peer, err := unix.Getpeername(n)
			if in, ok := peer.(*unix.SockaddrInet4); err == nil && ok && fmt.Sprintf("127.0.0.1:%d", in.Port) == srv.addr() {
				t.Errorf("socket %d is still connected to the server", n)
			}
		}
		links := 0
		for _, fd := range fds {
			link, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // "": closed meanwhile
			if link == "anon_inode:[eventpoll]" || link == "anon_inode:[eventfd]" {
				links++
			}
		}
		return links
	}
	before := sockets()
	for _, o := range []Options{
		{Addr: srv.addr(), Requests: 50},
		{Addr: srv.addr(), Requests: 50, Rate: 2000},
		{Addr: srv.addr(), Requests: 50, Close: true},
		{Addr: srv.addr(), Duration: time.Hour}, // until the context ends
		{Addr: nobody, Requests: 5},
	} {
		o.Connections, o.AppendPath = 5, appendPath
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if o.Duration == 0 {
			cancel()
			ctx, cancel = context.WithCancel(context.Background())
		}
		if res, err := Run(ctx, o); err != nil && o.Duration == 0 {
			t.Errorf("%+v, %v", res, err)
		}
		cancel()
		if after := sockets(); after != before {
			t.Errorf("%d epoll and event descriptors, had %d: %+v", after, before, o)
		}
	}
}

func TestFailuresAreCountedByReasonAndSurvived(t *testing.T) {
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/n/"))
		switch n % 5 {
		case 1:
			http.Error(w, "no", http.StatusServiceUnavailable)
		case 2:
			c, _, _ := w.(http.Hijacker).Hijack()
			_ = c.Close()
		case 3:
			c, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			_ = c.Close()
		default:
			hello(w, req)
		}
	})
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 4, Requests: 100, AppendPath: appendPath,
		Check: func(n uint64, _ []byte) error {
			if n%5 == 4 {
				return errors.New("not liked")
			}
			return nil
		},
	})
	if err != nil || res.OK != 20 || res.Failed != 80 || res.Latency.TotalCount() != 20 {
		t.Fatalf("%+v, %v", res, err)
	}
	for reason, want := range map[string]uint64{
		"status 503": 20, "not liked": 20,
		"connection closed before the response": 20, "connection closed within the response": 20,
	} {
		if res.Errors[reason] != want {
			t.Errorf("%s: %d, want %d (%v)", reason, res.Errors[reason], want, res.Errors)
		}
	}
	srv.each(t, 0, 100) // none was retried
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	_ = l.Close()
	res, err := Run(context.Background(), Options{Addr: addr, Connections: 2, Requests: 4, AppendPath: appendPath})
	if err != nil || res.Failed != 4 || res.Errors["dial: connection refused"] != 4 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestDurationWaitsForWhatIsInFlight(t *testing.T) {
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		time.Sleep(30 * time.Millisecond)
		hello(w, req)
	})
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 3, Duration: 100 * time.Millisecond, AppendPath: appendPath,
	})
	if err != nil || res.OK == 0 || res.Failed+res.Aborted != 0 || res.Next != res.OK {
		t.Fatalf("%+v, %v", res, err)
	}
	srv.each(t, 0, res.OK)
}

func TestCancelAbortsAndTimeoutFails(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	var reached atomic.Int64
	srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		reached.Add(1)
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	g, err := Start(ctx, Options{Addr: srv.addr(), Connections: 3, Requests: 100, AppendPath: appendPath})
	require.NoError(t, err)
	testkit.Until(t, 15*time.Second, "three requests reach the server", func() bool { return reached.Load() == 3 })
	cancel()
	res, err := g.Wait()
	if !errors.Is(err, context.Canceled) || res.Aborted != 3 || res.Failed != 0 || res.Next != 3 {
		t.Fatalf("cancelled: %+v, %v", res, err)
	}
	res, err = Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 2, Requests: 2, First: 200, Timeout: 50 * time.Millisecond, AppendPath: appendPath,
	})
	if err != nil || res.Failed != 2 || res.Errors["timeout"] != 2 {
		t.Fatalf("timed out: %+v, %v", res, err)
	}
}

func TestProgressEndsWithTheResult(t *testing.T) {
	srv := newRecorder(t, hello)
	var last, calls uint64
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 2, Duration: 60 * time.Millisecond, AppendPath: appendPath,
		ProgressEvery: 5 * time.Millisecond,
		Progress: func(ok, _ uint64) {
			assert.GreaterOrEqual(t, ok, last)
			last, calls = ok, calls+1
		},
	})
	if err != nil || calls < 2 || last != res.OK {
		t.Fatalf("%d calls, last %d: %+v, %v", calls, last, res, err)
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	good := Options{Addr: "127.0.0.1:1", Connections: 1, Requests: 1, AppendPath: appendPath}
	for name, spoil := range map[string]func(*Options){
		"no address":     func(o *Options) { o.Addr = "" },
		"no connections": func(o *Options) { o.Connections = 0 },
		"no path":        func(o *Options) { o.AppendPath = nil },
		"no end":         func(o *Options) { o.Requests = 0 },
		"negative body":  func(o *Options) { o.BodySize = -1 },
		"two bodies":     func(o *Options) { o.BodySize, o.AppendBody = 1, func(dst []byte, _ uint64) []byte { return dst } },
		"negative time":  func(o *Options) { o.Timeout = -1 },
		"negative rate":  func(o *Options) { o.Rate = -1 },
		"no number":      func(o *Options) { o.Rate = math.NaN() },
		"too great rate": func(o *Options) { o.Rate = 2 * MaxRate },
		"no port":        func(o *Options) { o.Addr = "127.0.0.1" },
		"unknown port":   func(o *Options) { o.Addr = "127.0.0.1:nope" },
		"injection":      func(o *Options) { o.Header = map[string]string{"A": "b\r\nC: d"} },
		"no token":       func(o *Options) { o.Header = map[string]string{"A b": "c"} },
		"no name":        func(o *Options) { o.Header = map[string]string{"": "c"} },
		"framing":        func(o *Options) { o.Header = map[string]string{"content-length": "1"} },
		"twice the same": func(o *Options) { o.Header = map[string]string{"a": "1", "A": "2"} },
	} {
		o := good
		spoil(&o)
		if _, err := Start(context.Background(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A request must not allocate: the collector's pauses and CPU would be taken
// for the system's under test.
func TestRequestsDoNotAllocate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nhello world!\n")
		b := make([]byte, 4096)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}()
	opts := Options{Addr: l.Addr().String(), AppendPath: appendPath, Duration: time.Hour, Connections: 1}
	require.NoError(t, opts.validate())
	addresses, err := resolve(t.Context(), opts.Addr)
	require.NoError(t, err)
	g := &Generator{opts: opts, started: time.Now()}
	g.end.Store(int64(time.Hour))
	w, err := newLoop(g, addresses, 1)
	require.NoError(t, err)
	defer w.poll.close()
	w.begin()
	request := func() {
		for n := w.ok.Load(); w.ok.Load() == n && w.failed.Load() == 0; {
			w.turn()
		}
	}
	request()
	assert.LessOrEqual(t, testing.AllocsPerRun(500, request), 0.1, "allocations per request")
	assert.EqualValues(t, 0, w.failed.Load(), "failed: %v", w.tally.errors)
	w.conns[0].hangUp()
	_ = l.Close()
	<-done
}

func TestBodyOfEachRequest(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	srv := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		mu.Lock()
		seen[r.URL.Path] = string(body)
		mu.Unlock()
	})
	res, err := Run(context.Background(), Options{
		Addr: srv.addr(), Connections: 2, Requests: 50, AppendPath: appendPath,
		Header: map[string]string{"Content-Type": "application/x-protobuf"},
		AppendBody: func(dst []byte, n uint64) []byte {
			return append(dst, strings.Repeat("z", int(n)*20_000)...) //nolint:gosec // n is small
		},
	})
	if err != nil || res.OK != 50 || res.Failed != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	mu.Lock() // the detector does not see that the answers came after
	defer mu.Unlock()
	for n := range uint64(50) {
		if got := seen[string(appendPath(nil, n))]; len(got) != int(n)*20_000 { //nolint:gosec // n is small
			t.Errorf("request %d had a body of %d bytes", n, len(got))
		}
	}
}
