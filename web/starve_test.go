package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/web"
)

// peak watches the memory in use until it is asked for the most.
func peak(t *testing.T) func() int64 {
	var most atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // otherwise collecting garbage is all that happens
			}
			runtime.GC()
			metrics.Read(sample)
			most.Store(max(most.Load(), int64(sample[0].Value.Uint64())))
		}
	}()
	end := sync.OnceFunc(func() { close(stop); <-done })
	t.Cleanup(end)
	return func() int64 { end(); return most.Load() }
}

// status asks, as a client, and reads the whole answer.
func status(ctx context.Context, t *testing.T, url, client string) (int, int64) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	r.Header.Set("Client", client)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return 0, 0
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	return res.StatusCode, n
}

// One reader asks for a large trace fifty times at once. Everything that another asks for at that time is answered, and
// the small queries of the same reader, too.
func TestAReaderOfLargeTracesDoesNotStarveOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	var refused atomic.Int32
	s := serve(t, web.Options{
		Store: open(t, large(10_000), order(2, noon)), Timeout: 5 * time.Minute,
		Client: func(r *http.Request) string { return r.Header.Get("Client") },
		Busy:   func(*http.Request, int, string) { refused.Add(1) },
	})
	const big = "/api/v1/traces/0a000000000000000000000000000001"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var attack sync.WaitGroup
	var answered atomic.Int32
	for range 50 {
		attack.Go(func() {
			if code, _ := status(ctx, t, s.URL+big, "greedy"); code == http.StatusOK {
				answered.Add(1)
			} else if code != 0 {
				t.Errorf("a large query: %d", code)
			}
		})
	}
	testkit.Until(t, time.Minute, "the attack is under way", func() bool { return answered.Load() > 0 })
	for i := range 4 {
		for _, path := range []string{
			"/api/v1/services", "/api/v1/traces?limit=5", "/api/v1/overview", "/api/v1/stats", "/api/v1/traces/0a000000000000000000000000000002",
			"/api/services", "/api/v1/latencies?start=2024-05-01T00:00:00Z", "/api/v1/diagnose?service=web&traces=10",
		} {
			client := []string{"honest", "greedy"}[i%2]
			if code, n := status(t.Context(), t, s.URL+path, client); code != http.StatusOK || n == 0 {
				t.Errorf("%s of %s: %d, %d bytes", path, client, code, n)
			}
		}
		if i == 0 {
			if code, n := status(t.Context(), t, s.URL+big, "honest"); code != http.StatusOK || n < 2<<20 {
				t.Errorf("a large trace of another reader: %d, %d bytes", code, n)
			}
			t.Logf("answered of the attack before: %d", answered.Load())
			if answered.Load() > 40 {
				t.Error("the other reader had to wait for nearly all of the attack")
			}
		}
	}
	stop() // those who wait go away
	attack.Wait()
	if n := refused.Load() + answered.Load(); n > 50 {
		t.Errorf("%d answered, %d left", answered.Load(), refused.Load())
	}
	testkit.Until(t, time.Minute, "nothing of them runs", func() bool {
		code, _ := status(t.Context(), t, s.URL+big, "honest")
		return code == http.StatusOK
	})
}

// longNames is what one sender wrote: n spans, each of a service, with an operation, of names of 900 KB.
func longNames(n int) *trace {
	t := newTrace(7, noon.Add(time.Minute))
	pad := strings.Repeat("n", 900<<10)
	for i := range n {
		s := t.span(fmt.Sprintf("s%d%s", i, pad), fmt.Sprintf("o%d%s", i, pad), server, byte(i+1), 0, time.Duration(i)*1000, time.Duration(i+20)*1000)
		s.Attributes().PutStr(fmt.Sprintf("k%d%s", i, pad), pad)
		s.Status().SetMessage(pad)
		s.TraceState().FromRaw("a=" + pad)
	}
	return t
}

// Very long names, attributes with very many keys and a large trace are stored, as by versions that cut nothing. A
// burst of every kind of query is answered: no query takes more memory than its part, none is refused, and the answers
// say what is cut.
func TestQueriesDoNotCostWhatASenderWrote(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	wide := newTrace(8, noon.Add(2*time.Minute))
	s := wide.span("wide", "GET /wide", server, 1, 0, 0, time.Millisecond)
	for i := range 10_000 {
		s.Attributes().PutStr(fmt.Sprintf("key-%d", i), strings.Repeat("v", 2000))
	}
	for i := range 3000 {
		s.Events().AppendEmpty().SetName(fmt.Sprintf("event-%d", i))
	}
	st := open(t, large(20_000), wide, order(2, noon))
	for range 2 { // the trace grows
		if err := st.Write(t.Context(), longNames(15).td); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 768 << 20 // what `tare collector` has without a configuration
	runtime.GC()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	srv := serve(t, web.Options{Store: st, Timeout: time.Minute})
	const long, wideID = "0a000000000000000000000000000007", "0a000000000000000000000000000008"
	const since = "start=2024-05-01T00:00:00Z"
	paths := []string{
		"/api/v1/services", "/api/v1/operations?service=web", "/api/v1/traces?limit=100", "/api/v1/traces?sort=spans", "/api/v1/traces?attr=key-1=v",
		"/api/v1/overview", "/api/v1/map?" + since, "/api/v1/latencies?by=operation&" + since, "/api/v1/diagnose",
		"/api/v1/traces/" + long, "/api/v1/traces/" + long + "?attributes=false", "/api/v1/traces/" + long + "/spans/0000000000000001",
		"/api/v1/traces/" + wideID, "/api/v1/traces/" + long + "/otlp", "/api/v1/traces/0a000000000000000000000000000001",
		"/api/services", "/api/operations?service=web", "/api/traces/" + long, "/api/traces?service=wide&start=1714521600000000&end=1893456000000000",
		"/api/dependencies?lookback=864000000000",
	}
	most := peak(t)
	var burst sync.WaitGroup
	for range 2 {
		for _, path := range paths {
			burst.Go(func() {
				code, n := status(t.Context(), t, srv.URL+path, "")
				if code != http.StatusOK || n > 64<<20 {
					t.Errorf("%s: %d, %d bytes", path, code, n)
				}
			})
		}
	}
	burst.Wait()
	if n := most(); n > limit {
		t.Errorf("%d MiB in use", n>>20)
	} else {
		t.Logf("%d MiB in use", n>>20)
	}

	var got struct {
		Services []struct{ Name string }
		Spans    []struct {
			Name          string
			StatusMessage string `json:"status_message"`
			Attributes    []struct{ Key, Value string }
			Dropped       struct{ Attributes, Events int }
		}
		Cut struct{ Spans, Fields, Texts int }
	}
	read := func(path string) string {
		got.Services, got.Spans = nil, nil
		res, body := fetch(t, "GET", srv.URL+path, nil)
		if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v", path, res.Status, err)
		}
		return body
	}
	if n := len(read("/api/v1/traces/" + long)); n > 16<<20 || len(got.Spans) != 30 || got.Cut.Spans != 0 || got.Cut.Texts < 5*30 {
		t.Errorf("the trace of long names: %d bytes, %d spans, %+v", n, len(got.Spans), got.Cut)
	}
	for _, s := range got.Spans {
		if len(s.Name) > 4096 || !strings.Contains(s.Name, "…#") || !strings.HasSuffix(s.StatusMessage, " bytes]") || len(s.Attributes) != 1 || len(s.Attributes[0].Key) > 256 {
			t.Fatalf("a span: name of %d bytes %.20q, message of %d, %d attributes", len(s.Name), s.Name, len(s.StatusMessage), len(s.Attributes))
		}
	}
	// A name that an answer has can be asked for.
	name := got.Services[0].Name
	read("/api/v1/services")
	found := false
	for _, s := range got.Services {
		found = found || s.Name == name
	}
	if !found {
		t.Error("the list of services has the service under another name")
	}
	if body := read("/api/v1/traces/" + wideID); len(body) > 4<<20 || got.Cut.Fields == 0 ||
		len(got.Spans[0].Attributes)+got.Spans[0].Dropped.Attributes != 10_000 || got.Spans[0].Dropped.Events == 0 {
		t.Errorf("the wide span: %d bytes, %d attributes, %+v, %+v", len(body), len(got.Spans[0].Attributes), got.Spans[0].Dropped, got.Cut)
	}
}

// A trace that is larger than the memory of queries is answered as far as that goes, and marked.
func TestHeavyTraceThatDoesNotFit(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	st := open(t, large(60_000))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	s := serve(t, web.Options{Store: st, Timeout: 5 * time.Minute})
	const path = "/api/v1/traces/0a000000000000000000000000000001"
	for _, query := range []string{"", "?attributes=false"} {
		var got struct {
			Spans []struct{ ID string }
			Cut   struct {
				Spans int
				Bare  int `json:"bare_spans"`
			}
		}
		res, body := fetch(t, "GET", s.URL+path+query, nil)
		if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s %v", res.Status, err)
		}
		if len(got.Spans)+got.Cut.Spans != 60_000 || len(got.Spans) < 10_000 || query == "" && got.Cut.Bare == 0 || query != "" && got.Cut.Bare != 0 {
			t.Errorf("%s: %d spans and %+v", query, len(got.Spans), got.Cut)
		}
	}
	if res, body := fetch(t, "GET", s.URL+path+"/otlp", nil); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s %.200s", res.Status, body)
	}
	// A span that is left out of the answer can still be read.
	if res, body := fetch(t, "GET", s.URL+path+"/spans/"+fmt.Sprintf("00000000%06x01", 59_999), nil); res.StatusCode != http.StatusOK || !strings.Contains(body, "attribute.key.1") {
		t.Errorf("%s %.200s", res.Status, body)
	}
}
