package limit

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Reasons why a span is rejected: indices.
const (
	noTraceID = iota
	noSpanID
	reasons
)

var reasonNames = [reasons]string{"no_trace_id", "no_span_id"}

// Rejected counts the spans of one request that were rejected, for the answer to its sender.
type Rejected struct {
	spans, all atomic.Int64
	decoded    atomic.Bool
}

type rejectedKey struct{}

// Watch returns a context for a request, and what is rejected of it until its receiver answers.
func Watch(ctx context.Context) (context.Context, *Rejected) {
	r := &Rejected{}
	return context.WithValue(ctx, rejectedKey{}, r), r
}

// Spans is how many were rejected.
func (r *Rejected) Spans() int64 { return r.spans.Load() }

// All reports whether none was accepted.
func (r *Rejected) All() bool { return r.spans.Load() == r.all.Load() }

// Decoded reports whether the receiver has passed something on: if not, it could not decode the request.
func (r *Rejected) Decoded() bool { return r.decoded.Load() }

func decoded(ctx context.Context) *Rejected {
	r, ok := ctx.Value(rejectedKey{}).(*Rejected)
	if ok {
		r.decoded.Store(true)
	}
	return r
}

// Text tells the sender why.
func (r *Rejected) Text() string {
	return fmt.Sprintf("%d of %d spans were rejected: their trace id or span id is missing or all zero, so nobody could find them", r.spans.Load(), r.all.Load())
}

// reject removes the spans without ids.
func reject(of *Rejected, td ptrace.Traces) (counts [reasons]int, sum int) {
	all := 0
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				all++
				if reason := invalid(s); reason < reasons {
					counts[reason]++
					sum++
				}
			}
		}
	}
	if sum == 0 {
		return counts, 0
	}
	if of != nil {
		of.spans.Add(int64(sum))
		of.all.Add(int64(all))
	}
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool { return invalid(s) < reasons })
			return ss.Spans().Len() == 0
		})
		return rs.ScopeSpans().Len() == 0
	})
	return counts, sum
}

func invalid(s ptrace.Span) int {
	switch {
	case s.TraceID().IsEmpty():
		return noTraceID
	case s.SpanID().IsEmpty():
		return noSpanID
	}
	return reasons
}
