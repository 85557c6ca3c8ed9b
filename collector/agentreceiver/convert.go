package agentreceiver

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/span"
)

// scopeName is also the scope of the agent's OTLP exporter.
const scopeName = "github.com/tare-trace/tare/agent"

// OTLP's span flags: the W3C trace flag, and whether the parent is remote.
const (
	flagSampled     = 0x001
	flagHasIsRemote = 0x100
	flagIsRemote    = 0x200
)

// traces copies spans into the collector's model, with the result that encoding by
// span/otlp and decoding by a receiver would have. Spans are grouped by resource; there
// are only as many resources as services on this host.
func traces(finished []*span.Span) ptrace.Traces {
	td := ptrace.NewTraces()
	type group struct {
		resource *span.Resource
		spans    ptrace.SpanSlice
	}
	var groups []group
	at := -1
	for _, s := range finished {
		if at < 0 || groups[at].resource != s.Resource {
			at = -1
			for i := range groups {
				if groups[i].resource == s.Resource {
					at = i
					break
				}
			}
		}
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{s.Resource, newScope(td, s.Resource)})
		}
		copySpan(s, groups[at].spans.AppendEmpty())
	}
	return td
}

// newScope adds a resource and its scope, and returns the scope's spans.
func newScope(td ptrace.Traces, res *span.Resource) ptrace.SpanSlice {
	rs := td.ResourceSpans().AppendEmpty()
	attrs := rs.Resource().Attributes()
	attrs.EnsureCapacity(1 + len(res.Attrs))
	if res.Service != "" {
		attrs.PutStr("service.name", text(res.Service))
	}
	for i := range res.Attrs {
		putAttr(attrs, &res.Attrs[i])
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(scopeName)
	ss.Scope().SetVersion(agent.Version)
	return ss.Spans()
}

func copySpan(from *span.Span, to ptrace.Span) {
	to.SetTraceID(pcommon.TraceID(from.TraceID))
	to.SetSpanID(pcommon.SpanID(from.ID))
	to.SetParentSpanID(pcommon.SpanID(from.Parent))
	to.TraceState().FromRaw(from.TraceState)
	to.SetName(text(from.Name))
	to.SetKind(ptrace.SpanKind(from.Kind))
	to.SetStartTimestamp(pcommon.Timestamp(from.Start))
	to.SetEndTimestamp(pcommon.Timestamp(from.End))
	to.Status().SetCode(ptrace.StatusCode(from.Status))
	flags := uint32(flagSampled | flagHasIsRemote)
	if from.Kind == span.Server && !from.Parent.IsZero() {
		flags |= flagIsRemote
	}
	to.SetFlags(flags)
	attrs := to.Attributes()
	attrs.EnsureCapacity(len(from.Attrs))
	for i := range from.Attrs {
		putAttr(attrs, &from.Attrs[i])
	}
}

func putAttr(to pcommon.Map, a *span.Attr) {
	switch a.Type {
	case span.IntType:
		to.PutInt(a.Key, a.Num)
	case span.BoolType:
		to.PutBool(a.Key, a.Num != 0)
	default:
		to.PutStr(a.Key, text(a.Str))
	}
}

// text replaces invalid UTF-8: names of services and units may contain any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
