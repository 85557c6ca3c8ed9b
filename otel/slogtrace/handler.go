// Package slogtrace adds the ids of the current span to the records of log/slog, so that logs and traces
// are found by each other:
//
//	slog.SetDefault(slog.New(slogtrace.New(slog.NewJSONHandler(os.Stderr, nil))))
//	…
//	slog.InfoContext(ctx, "paid") // {…,"msg":"paid","trace_id":"4bf9…","span_id":"00f0…"}
//
// It works with any tracer of OpenTelemetry's API: lean's, the SDK's, others'. It adds nothing where the
// context has no valid span context, as is the case for the methods without a context (slog.Info).
package slogtrace

import (
	"context"
	"encoding/hex"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// Keys of the attributes, lower-case hexadecimal as W3C has it. They are the names that OpenTelemetry's
// specification has for trace context in log formats other than OTLP.
const (
	TraceIDKey = "trace_id"
	SpanIDKey  = "span_id"
)

// Handler adds the ids to records, and passes them on. Make it with [New].
type Handler struct {
	next slog.Handler // the wrapped one, with all that WithAttrs and WithGroup added
	// The wrapped one puts what is added to a record of an open group into the group, where nobody looks
	// for ids. So records with ids go to the handler from before the first group, with groups made of
	// attributes.
	outside slog.Handler
	groups  []group // open ones, from the outermost
}

// group is an open group, with the attributes that were added within it.
type group struct {
	name  string
	attrs []slog.Attr
}

// New wraps a handler. The ids are attributes of the top level, also of loggers with a group.
func New(next slog.Handler) *Handler { return &Handler{next: next, outside: next} }

// Enabled asks the wrapped handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle passes the record on, with the ids of the context's span. The caller's record stays as it is.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return h.next.Handle(ctx, r)
	}
	traceID, spanID := ids(sc)
	if len(h.groups) == 0 {
		r = r.Clone()
		r.AddAttrs(traceID, spanID)
		return h.next.Handle(ctx, r)
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	out.AddAttrs(traceID, spanID, h.within(r))
	return h.outside.Handle(ctx, out)
}

// ids are the attributes, of one string.
func ids(sc trace.SpanContext) (traceID, spanID slog.Attr) {
	t, s := sc.TraceID(), sc.SpanID()
	var text [2 * (len(t) + len(s))]byte
	hex.Encode(text[:], t[:])
	hex.Encode(text[2*len(t):], s[:])
	both := string(text[:])
	return slog.String(TraceIDKey, both[:2*len(t)]), slog.String(SpanIDKey, both[2*len(t):])
}

// within makes the open groups, with the record's attributes in the innermost.
func (h *Handler) within(r slog.Record) slog.Attr {
	last := h.groups[len(h.groups)-1]
	attrs := make([]slog.Attr, len(last.attrs), len(last.attrs)+r.NumAttrs())
	copy(attrs, last.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	inner := slog.Attr{Key: last.name, Value: slog.GroupValue(attrs...)}
	for i := len(h.groups) - 2; i >= 0; i-- {
		g := h.groups[i]
		inner = slog.Attr{Key: g.name, Value: slog.GroupValue(append(slices.Clip(g.attrs), inner)...)}
	}
	return inner
}

// WithAttrs returns a handler whose records have these attributes too.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	out := *h
	out.next = h.next.WithAttrs(attrs)
	if len(h.groups) == 0 {
		out.outside = out.next
		return &out
	}
	out.groups = slices.Clone(h.groups)
	last := &out.groups[len(out.groups)-1]
	last.attrs = append(slices.Clip(last.attrs), attrs...)
	return &out
}

// WithGroup returns a handler whose records have their further attributes in a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	out := *h
	out.next = h.next.WithGroup(name)
	out.groups = append(slices.Clip(h.groups), group{name: name})
	return &out
}
