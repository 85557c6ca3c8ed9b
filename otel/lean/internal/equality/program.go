package equality

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A Program uses the OpenTelemetry API in a way that any tracer provider must answer alike.
type Program struct {
	Name string
	// Options of the provider; nil: none. They are made anew for each run.
	Options func(e *Env) Options
	// Environ is set while the provider is made and the program runs.
	Environ map[string]string
	// Concurrent programs have no order of their own: spans are compared by structure only, notes
	// as a set.
	Concurrent bool
	Run        func(ctx context.Context, e *Env)
}

// Options are those that every pipeline understands. A nil field is left to the provider's default.
type Options struct {
	Sampler  sdktrace.Sampler
	Limits   *sdktrace.SpanLimits // as they are: zero is zero, negative is no limit
	Resource *resource.Resource
	IDs      sdktrace.IDGenerator
}

// Env is what a program has besides the API.
type Env struct {
	trace.TracerProvider
	Propagator propagation.TextMapPropagator
	// Flush and Shutdown are the provider's own.
	Flush, Shutdown func(ctx context.Context) error

	mu    sync.Mutex
	notes []string
}

// Note keeps what the program saw; both providers must show the same.
func (e *Env) Note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

// NoteSpan notes all that a span tells about itself.
func (e *Env) NoteSpan(what string, s trace.Span) {
	e.Note("%s: recording %t, %s", what, s.IsRecording(), describe(s.SpanContext()))
}

// NoteHeaders notes what the propagator sends on from ctx.
func (e *Env) NoteHeaders(what string, ctx context.Context) { //nolint:revive // the note reads "what: headers of ctx"
	carrier := propagation.MapCarrier{}
	e.Propagator.Inject(ctx, carrier)
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(carrier)) {
		fmt.Fprintf(&text, " %s=%q", k, carrier[k])
	}
	e.Note("%s:%s", what, text.String())
}

// Main is the tracer of programs that need no other.
func (e *Env) Main() trace.Tracer { return e.Tracer("main") }

func describe(c trace.SpanContext) string {
	return fmt.Sprintf("trace %s span %s flags %s state %q remote %t",
		c.TraceID(), c.SpanID(), c.TraceFlags(), c.TraceState(), c.IsRemote())
}

// epoch is far from any clock, so that a time in a span tells whether the program gave it.
var epoch = time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)

// At is a time that a program gives, d after a fixed one in 2001.
func At(d time.Duration) time.Time { return epoch.Add(d) }
