package page_test

import (
	"encoding/json"
	nethttp "net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
)

// without is c with the spans of some services not sent.
func without(c call, lost func(service string) bool) call {
	c.lost = lost(c.service)
	calls := c.calls
	c.calls = nil
	for _, below := range calls {
		c.calls = append(c.calls, without(below, lost))
	}
	return c
}

// halves is a store of traces whose halves were written apart.
func halves(t *testing.T) (dir string, ids []pcommon.TraceID) {
	t.Helper()
	dir = t.TempDir()
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ends := func(service string) bool { return service == "payment" || service == "ledger" }
	for _, lost := range []func(string) bool{ends, func(s string) bool { return !ends(s) }} {
		w := newWriter(3) // the same ids again
		start := time.Now().Add(-10 * time.Minute)
		ids = nil
		for range 2 { // writes: so few that the store never makes one of them, and that the newest traces are much of it
			w.td, w.scopes = ptrace.NewTraces(), map[string]ptrace.ScopeSpans{}
			for range 60 {
				start = start.Add(time.Second)
				ids = append(ids, w.trace(start, without(checkout(1), lost), nil, ""))
			}
			if err := s.Write(t.Context(), w.td); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = s.Close()
	if err == nil { // what the log held goes into tables when the store is opened again
		if s, err = store.Open(store.Options{Dir: dir}); err == nil {
			err = s.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, ids
}

// flip is a copy of a store in which one byte of the largest table is another one.
func flip(t *testing.T, from string, at float64) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var largest []byte
	name := ""
	tables, err := filepath.Glob(filepath.Join(dir, "*", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		b, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > len(largest) {
			largest, name = b, table
		}
	}
	largest[int(float64(len(largest))*at)] ^= 4
	if err := os.WriteFile(name, largest, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readPart finds a trace of which a part can be read, and one that is whole, where the search
// cannot read everything either; or "".
func readPart(t *testing.T, base string, ids []pcommon.TraceID) (part, whole string) {
	t.Helper()
	get := func(path string, into any) {
		resp, err := nethttp.Get(base + "/api/v1/traces" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	var page struct{ Damaged int }
	if get("", &page); page.Damaged == 0 {
		return "", ""
	}
	for _, id := range ids {
		var trace struct {
			Damaged string
			Spans   []struct{}
		}
		get("/"+id.String(), &trace)
		switch {
		case len(trace.Spans) == 0: // an error that says so
		case trace.Damaged == "":
			whole = id.String()
		default:
			part = id.String()
		}
	}
	return part, whole
}

// Who looks at a damaged store is told: in the trace, in the search and in the health view.
func TestDamageIsShown(t *testing.T) {
	dir, ids := halves(t)
	var base, part, whole string
	// What lies where depends on how the store's engine lays out its tables.
	for at := 0.05; part == "" || whole == ""; at += 0.1 {
		if at > 1 {
			t.Fatal("wherever a byte is another one, no trace can be read in part")
		}
		var end func()
		var err error
		base, _, end, err = serve(flip(t, dir, at), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(end)
		part, whole = readPart(t, base, ids)
	}
	p := open(t, base, "#/trace/"+part, 1280, 900)
	p.wait("the trace is shown", "document.querySelector('.trace-facts')")
	if got := p.text(".trace-facts"); !strings.Contains(got, "damaged: some of its spans cannot be read") {
		t.Errorf("a damaged trace: %q", got)
	}
	p = open(t, base, "#/trace/"+whole, 1280, 900)
	p.wait("the trace is shown", "document.querySelector('.trace-facts')")
	if got := p.text(".trace-facts"); strings.Contains(got, "damaged") {
		t.Errorf("a whole trace: %q", got)
	}
	p = open(t, base, "#/traces", 1280, 900)
	p.wait("the search tells of it", "document.body.textContent.includes('A part of the store is damaged')")
	p.click("p.note a")
	p.wait("the health view is shown", "document.querySelector('.source .verdict.bad')?.textContent.includes('in damaged parts of the store')")
	if got := p.text("main"); !strings.Contains(got, "Damaged files") || !strings.Contains(got, ".sst") || !strings.Contains(got, "tare store repair") {
		t.Errorf("the health view: %q", got)
	}
}
