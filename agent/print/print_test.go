package print

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/span"
)

func spanOf(trace, id, parent byte) *span.Span {
	s := &span.Span{
		TraceID: span.TraceID{trace}, ID: span.ID{id}, Kind: span.Server, Name: "GET",
		Start: 1_000_000_000, End: 1_000_002_000, Status: span.Error,
		Resource: &span.Resource{Service: "web"},
		Attrs:    []span.Attr{span.String("url.path", "/x"), span.Int("server.port", 80), span.Bool("tare.pipelined", true)},
	}
	if parent != 0 {
		s.Parent = span.ID{parent}
	}
	return s
}

func newPrinter(t *testing.T, w *bytes.Buffer, format string) (*printer, *time.Time) {
	t.Helper()
	p, err := New(w, format)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(100, 0)
	pr := p.(*printer)
	pr.now = func() time.Time { return now }
	return pr, &now
}

func TestTraceIsPrintedOnceWhenQuiet(t *testing.T) {
	var out bytes.Buffer
	p, now := newPrinter(t, &out, Tree)
	s := spanOf(1, 2, 0)
	p.Add([]*span.Span{s})
	s.Name = "reused" // the caller may reuse what it handed over
	s.Attrs[0] = span.String("url.path", "/reused")
	p.Add([]*span.Span{spanOf(1, 3, 2)})
	p.Flush(false)
	if out.Len() != 0 {
		t.Fatalf("printed before the trace was quiet: %s", out.String())
	}
	*now = now.Add(2 * quiet)
	p.Flush(false)
	if got := out.String(); strings.Count(got, "GET /x") != 2 || strings.Contains(got, "reused") {
		t.Errorf("printed\n%s", got)
	}
	out.Reset()
	p.Flush(true)
	if out.Len() != 0 {
		t.Errorf("printed twice: %s", out.String())
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	p, _ := newPrinter(t, &out, JSON)
	p.Add([]*span.Span{spanOf(1, 2, 0), spanOf(1, 3, 2), spanOf(9, 8, 0)})
	p.Flush(true)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines for two traces", len(lines))
	}
	for _, line := range lines {
		var got struct {
			TraceID string `json:"trace_id"`
			Spans   []struct {
				SpanID, ParentID string
				Service          string
				DurationNS       uint64 `json:"duration_ns"`
				Error            bool
				Attributes       map[string]any
			}
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		s := got.Spans[0]
		if s.Service != "web" || s.DurationNS != 2000 || !s.Error || s.Attributes["server.port"] != 80.0 || s.Attributes["tare.pipelined"] != true {
			t.Errorf("%s: %+v", got.TraceID, s)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := New(&bytes.Buffer{}, "xml"); err == nil || !strings.Contains(err.Error(), "tree or json") {
		t.Errorf("error %v", err)
	}
}
