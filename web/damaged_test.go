package web_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web"
)

// damagedStore has a trace of two writes, of which one is damaged, and a trace of which nothing
// is readable.
func damagedStore(t *testing.T) *store.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	reopen := func(tds ...ptrace.Traces) {
		s, err := store.Open(store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, td := range tds {
			if err := s.Write(t.Context(), td); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// Large, and not compressible: the spans are alone in their part of the table.
	noise := make([]byte, 40_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	first, alone, second := newTrace(1, noon), newTrace(2, noon), newTrace(1, noon)
	first.span("web", "GET /first", server, 1, 0, 0, 20*ms).Attributes().PutEmptyBytes("noise").FromRaw(noise)
	alone.span("web", "GET /alone", server, 1, 0, 0, 20*ms)
	second.span("cart", "GET /second", server, 2, 1, ms, 2*ms)
	both := ptrace.NewTraces()
	first.td.ResourceSpans().MoveAndAppendTo(both.ResourceSpans())
	alone.td.ResourceSpans().MoveAndAppendTo(both.ResourceSpans())
	reopen(both)
	reopen(second.td)
	reopen()
	tables, err := filepath.Glob(filepath.Join(dir, "pebble", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// At its beginning: the engine tries bit by bit which one was flipped.
		if at := bytes.Index(b, noise[100:116]); at >= 0 {
			b[at] ^= 1
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the engine may find the damage again
	return s
}

// A damaged trace says that it is: with what is readable of it, or, if nothing is, instead of it.
func TestDamagedTrace(t *testing.T) {
	h := web.New(web.Options{Store: damagedStore(t)})
	ask := func(path string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "corruption detail carrier") {
			t.Errorf("%s: %s", path, w.Body)
		}
		return w.Code, w.Body.String()
	}
	status, body := ask("/api/v1/traces/" + newTrace(1, noon).id.String())
	var trace struct {
		Damaged string
		Spans   []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(body), &trace); err != nil || status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	if trace.Damaged == "" || len(trace.Spans) != 1 || trace.Spans[0].Name != "GET /second" {
		t.Errorf("%+v", trace)
	}
	if status, body := ask("/api/v1/traces/" + newTrace(2, noon).id.String()); status != http.StatusInternalServerError || !strings.Contains(body, "damaged") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := ask("/api/traces/" + newTrace(1, noon).id.String()); status != http.StatusOK || !strings.Contains(body, "damaged") || !strings.Contains(body, "GET /second") {
		t.Errorf("%d %s", status, body)
	}
	var stats struct {
		Damage struct {
			Unreadable int      `json:"unreadable_spans"`
			Files      []string `json:"files"`
		}
	}
	if _, body := ask("/api/v1/stats"); json.Unmarshal([]byte(body), &stats) != nil || stats.Damage.Unreadable == 0 || len(stats.Damage.Files) != 1 {
		t.Errorf("%s", body)
	}
	if status, body := ask("/api/v1/traces"); status != http.StatusOK || !strings.Contains(body, `"damaged":1`) {
		t.Errorf("%d %s", status, body)
	}
}
