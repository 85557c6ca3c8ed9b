package main

import (
	"database/sql"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"
)

// row is a span as a table of SQL keeps it: what is searched in columns, and all
// of it in OTLP's encoding.
type row struct {
	trace    pcommon.TraceID
	service  string
	name     string
	start    uint64 // Unix ns
	duration uint64 // ns
	root     bool
	entry    bool // a server or consumer span, or a root: counts in latencies
	failed   bool
	origin   origin
	span     []byte // OTLP's Span
}

// origin is the resource and the scope of a span in OTLP's encoding; many spans
// have the same.
type origin struct{ resource, scope string }

// Numbers of OTLP's fields (opentelemetry/proto/trace/v1/trace.proto):
// TracesData.resource_spans, ResourceSpans.resource and .scope_spans,
// ScopeSpans.scope and .spans. Schema URLs, which no span here has, are not kept.
const (
	fieldResourceSpans = 1
	fieldResource      = 1
	fieldScopeSpans    = 2
	fieldScope         = 1
	fieldSpans         = 2
)

// rowsOf encodes td once and cuts it up.
func rowsOf(td ptrace.Traces, rows []row) ([]row, error) {
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		return nil, err
	}
	resources, err := messages(data, fieldResourceSpans)
	if err != nil {
		return nil, err
	}
	for i, rs := range td.ResourceSpans().All() {
		name, _ := rs.Resource().Attributes().Get("service.name")
		service := name.AsString()
		resource, err := messages(resources[i], fieldResource)
		if err != nil {
			return nil, err
		}
		scopes, err := messages(resources[i], fieldScopeSpans)
		if err != nil {
			return nil, err
		}
		for j, ss := range rs.ScopeSpans().All() {
			scope, err := messages(scopes[j], fieldScope)
			if err != nil {
				return nil, err
			}
			spans, err := messages(scopes[j], fieldSpans)
			if err != nil {
				return nil, err
			}
			from := origin{first(resource), first(scope)}
			for k, s := range ss.Spans().All() {
				rows = append(rows, newRow(s, service, from, spans[k]))
			}
		}
	}
	return rows, nil
}

func newRow(s ptrace.Span, service string, from origin, encoded []byte) row {
	root := s.ParentSpanID().IsEmpty()
	return row{
		trace: s.TraceID(), service: service, name: s.Name(),
		start: uint64(s.StartTimestamp()), duration: uint64(s.EndTimestamp() - s.StartTimestamp()),
		root: root, entry: root || s.Kind() == ptrace.SpanKindServer || s.Kind() == ptrace.SpanKindConsumer,
		failed: s.Status().Code() == ptrace.StatusCodeError, origin: from, span: encoded,
	}
}

func first(all [][]byte) string {
	if len(all) == 0 {
		return ""
	}
	return string(all[0])
}

// messages returns the contents of every field with this number.
func messages(b []byte, number protowire.Number) ([][]byte, error) {
	var found [][]byte
	for len(b) > 0 {
		n, kind, used := protowire.ConsumeTag(b)
		if used < 0 {
			return nil, protowire.ParseError(used)
		}
		b = b[used:]
		if n == number && kind == protowire.BytesType {
			content, used := protowire.ConsumeBytes(b)
			if used < 0 {
				return nil, protowire.ParseError(used)
			}
			found = append(found, content)
			b = b[used:]
			continue
		}
		if used = protowire.ConsumeFieldValue(n, kind, b); used < 0 {
			return nil, protowire.ParseError(used)
		}
		b = b[used:]
	}
	return found, nil
}

// traceOfRows puts together spans, each after its origin's number.
func traceOfRows(rows *sql.Rows, err error, origins map[origin]int64) (ptrace.Traces, error) {
	if err != nil {
		return ptrace.Traces{}, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	spans := map[int64][]byte{}         // as fields of ScopeSpans
	for rows.Next() {
		var from int64
		var span sql.RawBytes
		if err := rows.Scan(&from, &span); err != nil {
			return ptrace.Traces{}, err
		}
		spans[from] = appendMessage(spans[from], fieldSpans, span)
	}
	if err := rows.Err(); err != nil {
		return ptrace.Traces{}, err
	}
	if len(spans) == 0 {
		return ptrace.Traces{}, errNotFound
	}
	var data []byte
	for from, number := range origins {
		if len(spans[number]) > 0 {
			scopeSpans := append(appendMessage(nil, fieldScope, []byte(from.scope)), spans[number]...)
			rs := appendMessage(nil, fieldResource, []byte(from.resource))
			data = appendMessage(data, fieldResourceSpans, appendMessage(rs, fieldScopeSpans, scopeSpans))
		}
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
	if err != nil {
		return td, fmt.Errorf("what is stored: %w", err)
	}
	return td, nil
}

func appendMessage(dst []byte, number protowire.Number, content []byte) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return protowire.AppendBytes(dst, content)
}
