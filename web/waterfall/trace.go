package waterfall

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

// Trace is an analysed trace. It refers to the pdata that it was made from.
type Trace struct {
	ID         pcommon.TraceID
	Start, End uint64 // nanoseconds since 1970-01-01 UTC: the first start and the last end
	Spans      []Span // depth first, siblings by start
	Resources  []Resource
	Services   []Service
	Gaps       []Interval // times from Start to End at which no span was open

	// What the collector wrote about the trace on its top span.
	State, Reason, Keep string
	Retro               semconv.RetroSet // why the agent kept it retroactively; 0: it did not
	Weight              float64          // how many traces it represents in estimates: 1 / its sampling probability; see package weight

	sampled weight.Trace
	states  weight.States
}

// Interval is a time span in nanoseconds since the trace's start.
type Interval struct{ From, To uint64 }

// Resource is the resource of some spans.
type Resource struct {
	Service    int // index in Trace.Services
	Attributes pcommon.Map
}

// Service counts the spans of a service.
type Service struct {
	Name          string
	Spans, Errors int
}

// Span is a span in its trace. Times are nanoseconds since the trace's start.
type Span struct {
	ptrace.Span
	Scope    string
	Target   string // what it asked for, beside its name; see semconv.Target
	Resource int    // index in Trace.Resources
	Service  int    // index in Trace.Services
	Depth    int    // 0: below no other span of the trace
	Above    int    // index in Trace.Spans of the span below which it is shown; -1: at the top

	Start    uint64
	Duration uint64 // 0 if the span ends before it starts
	// Self is the duration less the union of the times of its children, as far as
	// they lie within it; package span prints the same.
	Self uint64
	// Critical are the times at which the critical path runs through this span itself.
	Critical []Interval

	MissingParent bool // it names a parent that is not in the trace
	MissingServer bool // it called a traced service, whose span is not in the trace
	Late          bool
	ClockOffset   int64 // nanoseconds that the collector added to its times
	LinkedBy      string
	Unlinked      string // why calls for this request were not linked: as in tare_unlinked_total, "" if they were
	Behind        string // a root: the service that asked, whose calls are not linked
}

// flat is a span while the trace is built, with the values that are compared often.
type flat struct {
	span.Node
	span  ptrace.Span
	scope string
}

// Analyse analyses the spans as one trace, even if their trace ids differ: the caller has
// selected them.
func Analyse(td ptrace.Traces) *Trace {
	t := &Trace{Weight: 1}
	flats := t.flatten(td)
	if len(flats) == 0 {
		return t
	}
	t.ID = flats[0].span.TraceID()
	// Stable, so that spans with the same start keep their order.
	slices.SortStableFunc(flats, func(a, b flat) int { return cmp.Compare(a.Start, b.Start) })
	for i := range flats {
		t.End = max(t.End, flats[i].End)
	}
	t.Start = flats[0].Start

	tr := newTree(flats)
	t.Spans = make([]Span, len(flats))
	at := make([]int, len(flats)) // where in t.Spans each span is
	for place, i := range tr.Order {
		at[i] = place
		t.describe(&t.Spans[place], tr, i)
		if above := tr.Above[i]; above >= 0 {
			t.Spans[place].Above = at[above]
		}
	}
	t.Retro, t.Weight = t.sampled.Kept(), t.sampled.Traces()
	tr.critical(t, at)
	t.Gaps = gaps(flats, t.Start)
	t.judge(tr)
	return t
}

// flatten collects the spans, resources and services. A span without a start begins at
// its end, and one without both at the start of the trace: in OTLP zero means unknown,
// and 1970 would make the trace very long.
func (t *Trace) flatten(td ptrace.Traces) []flat {
	flats := make([]flat, 0, td.SpanCount())
	services := map[string]int{}
	earliest := ^uint64(0)
	for _, rs := range td.ResourceSpans().All() {
		name := ServiceName(rs.Resource())
		service, ok := services[name]
		if !ok {
			service = len(t.Services)
			services[name] = service
			t.Services = append(t.Services, Service{Name: name})
		}
		resource := len(t.Resources)
		t.Resources = append(t.Resources, Resource{Service: service, Attributes: rs.Resource().Attributes()})
		for _, ss := range rs.ScopeSpans().All() {
			scope := ss.Scope().Name()
			for _, s := range ss.Spans().All() {
				f := flat{
					span: s, scope: scope,
					Node: span.Node{
						ID: span.ID(s.SpanID()), Parent: span.ID(s.ParentSpanID()),
						Start: uint64(s.StartTimestamp()), End: uint64(s.EndTimestamp()),
						Kind: span.Kind(s.Kind()), Resource: resource,
					},
				}
				if f.Start == 0 {
					f.Start = f.End
				}
				if f.Start != 0 {
					earliest = min(earliest, f.Start)
				}
				flats = append(flats, f)
				t.Services[service].Spans++
				if s.Status().Code() == ptrace.StatusCodeError {
					t.Services[service].Errors++
				}
			}
		}
	}
	if earliest == ^uint64(0) {
		earliest = 0
	}
	for i := range flats {
		f := &flats[i]
		if f.Start == 0 {
			f.Start = earliest
		}
		f.End = max(f.End, f.Start)
	}
	return flats
}

// ServiceName is a resource's service.name, or "(unknown)", because an empty name could
// not be shown.
func ServiceName(r pcommon.Resource) string {
	if v, ok := r.Attributes().Get("service.name"); ok && v.AsString() != "" {
		return v.AsString()
	}
	return "(unknown)"
}

// gaps are the times that no span covers; spans are sorted by start.
func gaps(flats []flat, start uint64) []Interval {
	var out []Interval
	at := flats[0].Start
	for i := range flats {
		if s := flats[i].Start; s > at {
			out = append(out, Interval{at - start, s - start})
		}
		at = max(at, flats[i].End)
	}
	return out
}
