package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/web"
)

// large is a trace of n spans with 12 attributes each, over 20 services: a
// request that fans out, four deep.
func large(n int) *trace {
	t := newTrace(1, noon)
	for i := range n {
		s := t.span(fmt.Sprintf("service-%d", i%20), "GET /item/{id}", server, 1, 0, time.Duration(i)*1000, time.Duration(i+20)*1000)
		s.SetSpanID(pcommon.SpanID{4: byte(i >> 16), 5: byte(i >> 8), 6: byte(i), 7: 1})
		s.SetParentSpanID(pcommon.SpanID{})
		if i > 0 {
			p := i / 20
			s.SetParentSpanID(pcommon.SpanID{4: byte(p >> 16), 5: byte(p >> 8), 6: byte(p), 7: 1})
		}
		for k := range 10 {
			s.Attributes().PutStr(fmt.Sprintf("attribute.key.%d", k), "a value of some length")
		}
		s.Attributes().PutInt("server.port", 8080)
		s.Attributes().PutBool("tare.peer.traced", true)
	}
	return t
}

func TestHeavyTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	small := large(10_000)
	small.td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				s.SetTraceID(pcommon.TraceID{15: 2})
			}
		}
		return false
	})
	s := serve(t, web.Options{Store: open(t, large(100_000), small), Timeout: 5 * time.Minute})
	const path, other = "/api/v1/traces/0a000000000000000000000000000001", "00000000000000000000000000000002"
	for url, least := range map[string]int{
		path: 60 << 20, path + "?attributes=false": 20 << 20, path + "/spans/0000000001869e01": 300,
		"/api/v1/traces/" + other + "/otlp": 2 << 20, "/api/traces/" + other: 6 << 20,
	} {
		res, body := fetch(t, "GET", s.URL+url, nil)
		if res.StatusCode != 200 || len(body) < least || !json.Valid([]byte(body)) {
			t.Errorf("%s: %s, %d bytes: %.300s", url, res.Status, len(body), body)
		}
	}
}

// Many queries for a large trace at once take as much memory as one after the other: each
// waits until it fits beside the others. Without that, 16 took 3.2 GB, and what was sent
// meanwhile was refused.
func TestHeavyTracesWaitForEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	const limit = 512 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	st := open(t, large(20_000))
	s := serve(t, web.Options{Store: st, Timeout: 5 * time.Minute})
	urls := []string{
		"/api/v1/traces/0a000000000000000000000000000001", "/api/v1/traces/0a000000000000000000000000000001/otlp",
		"/api/traces/0a000000000000000000000000000001",
	}
	most := peak(t)
	var asking sync.WaitGroup
	for i := range 16 {
		asking.Go(func() {
			res, err := http.Get(s.URL + urls[i%len(urls)])
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			n, err := io.Copy(io.Discard, res.Body)
			if err != nil || res.StatusCode != http.StatusOK || n < 2<<20 {
				t.Errorf("%s: %s, %d bytes, %v", urls[i%len(urls)], res.Status, n, err)
			}
		})
	}
	asking.Wait()
	n := most()
	t.Logf("%d MiB at most", n>>20)
	// One of them takes about 100 MiB, with what the garbage collector has not seen yet up to
	// 200; all at once take 440.
	if n > limit*5/8 {
		t.Errorf("%d MiB in use", n>>20)
	}
}
