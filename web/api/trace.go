package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
	"github.com/tare-trace/tare/web/waterfall"
)

// maxTrace bounds a trace as JSON, in bytes. It is written span by span; of how much of it is read, the memory of
// queries decides.
const maxTrace = 256 << 20

type traceHead struct {
	TraceID  string         `json:"trace_id"`
	Start    string         `json:"start"`         // RFC 3339
	StartNs  string         `json:"start_unix_ns"` // text: beyond 2^53
	Duration uint64         `json:"duration_ns"`
	State    string         `json:"state"`
	Reason   string         `json:"reason"`
	Keep     string         `json:"keep"`
	Retro    string         `json:"retro"` // why it was kept retroactively, with commas between; "": it was not
	Weight   float64        `json:"weight"`
	Services []serviceCount `json:"services"`
	Resource []resource     `json:"resources"`
	Gaps     [][2]uint64    `json:"gaps"`
	Hidden   int            `json:"hidden_spans"` // spans that are left out, since the reader may not see their services
	Damaged  string         `json:"damaged"`      // why spans or log records are missing that were stored; "" if none is
}

type resource struct {
	Service    int         `json:"service"`
	Attributes []attribute `json:"attributes"`
}

type spanJSON struct {
	ID            string      `json:"id"`
	Parent        string      `json:"parent"`
	Depth         int         `json:"depth"`
	Service       int         `json:"service"`
	Resource      int         `json:"resource"`
	Scope         string      `json:"scope"`
	Name          string      `json:"name"`
	Target        string      `json:"target"` // beside the name: a path, a query, "" if unknown
	Kind          string      `json:"kind"`
	Start         uint64      `json:"start_ns"` // from the trace's start
	Duration      uint64      `json:"duration_ns"`
	Self          uint64      `json:"self_ns"`
	Status        string      `json:"status"`
	StatusMessage string      `json:"status_message"`
	Critical      [][2]uint64 `json:"critical"`
	MissingParent bool        `json:"missing_parent"`
	HiddenParent  bool        `json:"hidden_parent"` // the parent is of a service that the reader may not see
	MissingServer bool        `json:"missing_server"`
	Late          bool        `json:"late"`
	ClockOffset   int64       `json:"clock_offset_ns"`
	LinkedBy      string      `json:"linked_by"`
	Unlinked      string      `json:"unlinked"` // why calls for this request were not linked, "" if they were
	Behind        string      `json:"behind"`   // the service that asked, whose calls are not linked
	*details
}

type details struct {
	Attributes []attribute `json:"attributes"`
	Events     []event     `json:"events"`
	Links      []link      `json:"links"`
	Dropped    dropped     `json:"dropped,omitzero"`
}

// dropped is what a span had more of: its sender left it out, or it did not fit into the answer.
type dropped struct {
	Attributes uint32 `json:"attributes"`
	Events     uint32 `json:"events"`
	Links      uint32 `json:"links"`
}

type event struct {
	Offset     int64       `json:"offset_ns"` // from the trace's start
	Name       string      `json:"name"`
	Attributes []attribute `json:"attributes"`
}

type link struct {
	TraceID    string      `json:"trace_id"`
	SpanID     string      `json:"span_id"`
	Attributes []attribute `json:"attributes"`
}

// cut is what of a trace is stored and is not in the answer. A text that is cut has a mark of its own: see package text.
type cut struct {
	Spans  int `json:"spans"`
	Bare   int `json:"bare_spans"` // spans without attributes, events and links
	Fields int `json:"fields"`     // attributes, events and links of spans that have very many
	Texts  int `json:"texts"`      // that are cut since they are very long
}

func cutOf(c store.Cut) cut { return cut{c.Spans, c.Short, c.Fields, c.Texts} }

// analysed is a trace as a response, written span by span.
type analysed struct {
	*waterfall.Trace
	attributes bool
	damaged    string
	found      store.Found
	logs       []logRecord
}

// analyse makes a trace of what was found, and notes what is in it.
func analyse(r *http.Request, f store.Found) *analysed {
	answer.NoteTrace(r.Context(), f.Traces)
	return &analysed{Trace: waterfall.Analyse(f.Traces), attributes: true, found: f}
}

func (a *api) trace(r *http.Request) (any, error) {
	p := newParams(r)
	all := p.flag("attributes", true)
	if err := p.done(); err != nil {
		return nil, err
	}
	found, damaged, err := a.read(r, store.Part{Keys: waterfall.Reads, All: all})
	if err != nil {
		return nil, err
	}
	t := analyse(r, found)
	logs, unread, err := a.logs(r.Context(), t.Trace)
	if err != nil {
		return nil, err
	}
	if damaged == "" {
		damaged = unread
	}
	t.attributes, t.damaged, t.logs = all, damaged, logs
	return t, r.Context().Err()
}

// read finds the trace that the path names. If only a part of it can be read, it says why.
func (a *api) read(r *http.Request, part store.Part) (f store.Found, damaged string, err error) {
	id, err := traceID(r)
	if err != nil {
		return f, "", err
	}
	f, err = a.Store.FindPart(r.Context(), id, part)
	switch {
	case errors.Is(err, store.ErrCorrupt) && f.Traces.SpanCount() > 0:
		return f, err.Error(), nil
	case errors.Is(err, store.ErrNotFound) && a.Store.Damage().Spans() > 0:
		return f, "", answer.NotFound("no span of this trace is stored; it may be among the spans that this store has lost: the health view has their number")
	}
	return f, "", err
}

// WriteJSON writes span by span, so that a trace of 100,000 spans is never one string in
// memory. The query's deadline covers only reading the trace; the server's write timeout
// covers a slow peer.
func (t *analysed) WriteJSON(_ context.Context, w http.ResponseWriter) error {
	head, err := json.Marshal(t.head())
	if err != nil {
		return err
	}
	left := cutOf(t.found.Cut)
	counted := &counting{Writer: w}
	out := bufio.NewWriterSize(counted, 64<<10)
	_, _ = out.Write(head[:len(head)-1]) // a bufio.Writer keeps its first error
	_, _ = out.WriteString(`,"spans":[`)
	enc := json.NewEncoder(out)
	for i := range t.Spans {
		if counted.n > maxTrace {
			left.Spans += len(t.Spans) - i
			break
		}
		if i > 0 {
			_ = out.WriteByte(',')
		}
		if err := enc.Encode(t.span(i, t.attributes)); err != nil {
			return err
		}
	}
	logs, err := json.Marshal(t.logs)
	if err != nil {
		return err
	}
	_, _ = out.WriteString(`],"logs":`)
	_, _ = out.Write(logs)
	rest, err := json.Marshal(left)
	if err != nil {
		return err
	}
	_, _ = out.WriteString(`,"cut":`)
	_, _ = out.Write(rest)
	_, _ = out.WriteString("}\n")
	return out.Flush()
}

// counting counts the bytes that are written.
type counting struct {
	io.Writer
	n int
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += n
	return n, err
}

func (t *analysed) head() traceHead {
	h := traceHead{
		TraceID: t.ID.String(), StartNs: strconv.FormatUint(t.Start, 10), Duration: t.End - t.Start,
		Start: timeText(time.Unix(int64(t.Start/1e9), int64(t.Start%1e9))), // as a Timestamp, times after 2262 would wrap
		State: t.State, Reason: t.Reason, Keep: t.Keep, Retro: t.Retro.String(), Weight: finite(t.Weight),
		Services: make([]serviceCount, 0, len(t.Services)), Resource: make([]resource, 0, len(t.Resources)),
		Gaps: intervals(t.Gaps), Hidden: t.found.HiddenSpans, Damaged: t.damaged,
	}
	for _, s := range t.Services {
		h.Services = append(h.Services, serviceCount(s))
	}
	for _, r := range t.Resources {
		h.Resource = append(h.Resource, resource{r.Service, attributes(r.Attributes)})
	}
	return h
}

func (t *analysed) span(i int, all bool) spanJSON {
	s := &t.Spans[i]
	out := spanJSON{
		ID: s.SpanID().String(), Depth: s.Depth, Service: s.Service, Resource: s.Resource, Scope: s.Scope,
		Name: s.Name(), Target: s.Target, Kind: kindName(int32(s.Kind())), Start: s.Start, Duration: s.Duration, Self: s.Self,
		Status: statusName(s.Status().Code()), StatusMessage: s.Status().Message(), Critical: intervals(s.Critical),
		Late:        s.Late,
		ClockOffset: s.ClockOffset, LinkedBy: s.LinkedBy, Unlinked: s.Unlinked, Behind: s.Behind,
	}
	if p := s.ParentSpanID(); !p.IsEmpty() {
		out.Parent = p.String()
		out.HiddenParent = s.MissingParent && t.found.Parent(s.Span)
		out.MissingParent = s.MissingParent && !out.HiddenParent
	}
	out.MissingServer = s.MissingServer && !t.found.Child(s.Span)
	if all {
		out.details = t.details(s.Span)
	}
	return out
}

func (t *analysed) details(s ptrace.Span) *details {
	d := &details{Attributes: attributes(s.Attributes()), Events: make([]event, 0, s.Events().Len()),
		Links: make([]link, 0, s.Links().Len()), Dropped: dropped{s.DroppedAttributesCount(), s.DroppedEventsCount(), s.DroppedLinksCount()}}
	for _, e := range s.Events().All() {
		// Unsigned arithmetic wraps, and so gives the right negative offset.
		d.Events = append(d.Events, event{int64(uint64(e.Timestamp()) - t.Start), e.Name(), attributes(e.Attributes())})
	}
	for _, l := range s.Links().All() {
		d.Links = append(d.Links, link{l.TraceID().String(), l.SpanID().String(), attributes(l.Attributes())})
	}
	return d
}

func intervals(in []waterfall.Interval) [][2]uint64 {
	out := make([][2]uint64, 0, len(in))
	for _, i := range in {
		out = append(out, [2]uint64{i.From, i.To})
	}
	return out
}

func statusName(c ptrace.StatusCode) string {
	switch c {
	case ptrace.StatusCodeOk:
		return "ok"
	case ptrace.StatusCodeError:
		return "error"
	default:
		return "unset"
	}
}

// span answers one span with all details: the n-th, in the trace's order, of those with
// this id.
func (a *api) span(r *http.Request) (any, error) {
	p := newParams(r)
	nth := p.number("n", 0, 1_000_000, 0)
	if err := p.done(); err != nil {
		return nil, err
	}
	id, err := spanID(r)
	if err != nil {
		return nil, err
	}
	found, _, err := a.read(r, store.Part{Keys: waterfall.Reads, Whole: id})
	if err != nil {
		return nil, err
	}
	return spanOf(analyse(r, found), id, nth)
}

func spanOf(t *analysed, id pcommon.SpanID, nth int) (any, error) {
	for i := range t.Spans {
		if t.Spans[i].SpanID() != id {
			continue
		}
		if nth == 0 {
			return t.span(i, true), nil
		}
		nth--
	}
	return nil, answer.NotFound("the trace has no such span")
}

// otlp is the trace as an OTLP/JSON file, which any OTLP receiver accepts.
type otlp struct{ ptrace.Traces }

func (a *api) otlp(r *http.Request) (any, error) {
	if err := newParams(r).done(); err != nil {
		return nil, err
	}
	found, _, err := a.read(r, store.Part{Keys: waterfall.Reads, All: true})
	if err != nil {
		return nil, err
	}
	td := found.Traces
	answer.NoteTrace(r.Context(), td)
	if c := found.Cut; c.Spans+c.Short > 0 { // a file would not say that it lacks them
		return nil, answer.TooLarge("the trace is larger than what there is memory for: %d of its spans would be missing and %d lack attributes; "+
			"read it with attributes=false, and its spans by /spans/{span id}", c.Spans, c.Short)
	}
	return otlp{td}, nil
}

// WriteJSON implements answer.Streamer.
func (o otlp) WriteJSON(_ context.Context, w http.ResponseWriter) error {
	b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(o.Traces)
	if err != nil {
		return err
	}
	id := waterfall.Analyse(o.Traces).ID.String()
	w.Header().Set("Content-Disposition", `attachment; filename="trace-`+id+`.json"`)
	_, err = w.Write(b)
	return err
}
