// Package print prints traces for a person or a script: as trees, or as one JSON object
// per trace and line. It holds the spans of a trace until no more have come for a while;
// it does not check whether a trace is complete.
package print

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/tare-trace/tare/span"
)

// Formats that New knows.
const (
	Tree = "tree"
	JSON = "json"
)

// quiet is how long after its last span a trace is printed. A span is reported at most
// half a second after its last byte, so this is enough, except for traces with long
// pauses, which are printed in pieces.
const quiet = time.Second

// maxTraces bounds the traces held; beyond it, all are printed at once.
const maxTraces = 10000

// Printer takes spans and prints traces. It is not safe for concurrent use.
type Printer interface {
	// Add takes spans; it copies what it keeps.
	Add([]*span.Span)
	// Flush prints traces that have been quiet, or all.
	Flush(all bool)
}

type printer struct {
	w      *bufio.Writer
	write  func(io.Writer, []span.Span) error
	traces map[span.TraceID]*trace
	now    func() time.Time
}

type trace struct {
	spans []span.Span
	last  time.Time
}

// New makes a printer for one of the formats.
func New(w io.Writer, format string) (Printer, error) {
	p := &printer{w: bufio.NewWriter(w), traces: map[span.TraceID]*trace{}, now: time.Now}
	switch format {
	case Tree:
		p.write = span.WriteTree
	case JSON:
		p.write = writeJSON
	default:
		return nil, fmt.Errorf("cannot print %q: choose %s or %s", format, Tree, JSON)
	}
	return p, nil
}

func (p *printer) Add(spans []*span.Span) {
	now := p.now()
	for _, s := range spans {
		t := p.traces[s.TraceID]
		if t == nil {
			t = &trace{}
			p.traces[s.TraceID] = t
		}
		c := *s
		c.Attrs = append([]span.Attr(nil), s.Attrs...)
		t.spans = append(t.spans, c)
		t.last = now
	}
	if len(p.traces) > maxTraces {
		p.Flush(true)
	}
}

func (p *printer) Flush(all bool) {
	now := p.now()
	for id, t := range p.traces {
		if all || now.Sub(t.last) > quiet {
			_ = p.write(p.w, t.spans) // tracing continues although the terminal is closed
			delete(p.traces, id)
		}
	}
	_ = p.w.Flush()
}

type jsonSpan struct {
	SpanID     string         `json:"span_id"`
	ParentID   string         `json:"parent_id,omitempty"`
	Service    string         `json:"service"`
	Kind       string         `json:"kind"`
	Name       string         `json:"name"`
	Start      time.Time      `json:"start"`
	DurationNS uint64         `json:"duration_ns"`
	Error      bool           `json:"error,omitempty"`
	Attributes map[string]any `json:"attributes"`
}

func writeJSON(w io.Writer, spans []span.Span) error {
	out := struct {
		TraceID string     `json:"trace_id"`
		Spans   []jsonSpan `json:"spans"`
	}{TraceID: spans[0].TraceID.String()}
	for i := range spans {
		s := &spans[i]
		j := jsonSpan{
			SpanID: s.ID.String(), Service: s.Resource.Service, Kind: s.Kind.String(), Name: s.Name,
			Start: time.Unix(0, int64(s.Start)).UTC(), DurationNS: s.Duration(),
			Error: s.Status == span.Error, Attributes: make(map[string]any, len(s.Attrs)),
		}
		if !s.Parent.IsZero() {
			j.ParentID = s.Parent.String()
		}
		for _, a := range s.Attrs {
			switch a.Type {
			case span.IntType:
				j.Attributes[a.Key] = a.Num
			case span.BoolType:
				j.Attributes[a.Key] = a.Num != 0
			default:
				j.Attributes[a.Key] = a.Str
			}
		}
		out.Spans = append(out.Spans, j)
	}
	return json.NewEncoder(w).Encode(out)
}
