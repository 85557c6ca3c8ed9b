package store

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// Agents and collectors add attributes to a span that tell of other services' spans in its trace. A reader with
// a scope gets of them what names none but its own services, and no search by them answers for others.
var disclosing = []string{semconv.Behind, semconv.TraceReason, semconv.KeepReason, semconv.RetroReason}

// disclose is what of the value of a disclosing attribute the reader gets; "": nothing.
func (s *Scope) disclose(key, value string) string {
	switch key {
	case semconv.Behind:
		if s.Service(value) {
			return value
		}
	case semconv.TraceReason: // with commas between: reasons, or reason=service
		parts := strings.Split(value, ",")
		for i, p := range parts {
			if reason, service, names := strings.Cut(p, "="); names && !s.Service(service) {
				parts[i] = reason
			}
		}
		return strings.Join(slices.Compact(parts), ",")
	}
	return ""
}

// clean leaves of the disclosing attributes in td what the reader gets.
func (s *Scope) clean(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		s.cleanMap(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				s.cleanMap(span.Attributes())
			}
		}
	}
}

func (s *Scope) cleanMap(m pcommon.Map) {
	m.RemoveIf(func(key string, v pcommon.Value) bool {
		if !slices.Contains(disclosing, key) {
			return false
		}
		left := s.disclose(key, v.AsString())
		v.SetStr(left)
		return left == ""
	})
}

// asks reports whether the query compares a disclosing attribute.
func (m *match) asks() bool {
	return m.q.Retro&^semconv.RetroKept != 0 || slices.ContainsFunc(m.attributes, func(a *attributeMatch) bool {
		return slices.ContainsFunc(a.keys, func(k string) bool { return slices.Contains(disclosing, k) })
	})
}

// restrict makes a query that compares what the reader may not get find nothing.
func (v *view) restrict(m *match) *match {
	m.empty = m.empty || v.lens != nil && v.lens.scope != nil && m.asks()
	return m
}
