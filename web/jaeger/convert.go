package jaeger

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jaegertracing/jaeger-idl/model/v1"
	translate "github.com/open-telemetry/opentelemetry-collector-contrib/pkg/translator/jaeger"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/waterfall"
)

// A browser would round integers beyond these; Jaeger writes them as strings.
const maxSafe, minSafe = int64(1)<<53 - 1, -(int64(1)<<53 - 1)

// convert makes a Jaeger trace. The OpenTelemetry Collector's translator maps OTLP to
// Jaeger's terms (references, tags of kind and status, logs); warnings say what Tare
// found wrong.
func convert(f store.Found) trace {
	td := f.Traces
	t := waterfall.Analyse(td)
	out := trace{TraceID: idText(t.ID), Spans: make([]span, 0, len(t.Spans)), Processes: map[string]process{}}
	switch t.State {
	case semconv.StateIncomplete:
		out.Warnings = append(out.Warnings, "the trace is incomplete: "+strings.ReplaceAll(t.Reason, ",", ", "))
	case semconv.StateUnlinked:
		out.Warnings = append(out.Warnings, "the trace is part of a larger one, since calls of a service are not linked: "+strings.NewReplacer(",", ", ", "=", " ", "_", " ").Replace(t.Reason))
	}
	if f.HiddenSpans > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d spans are left out: the reader may not see their services", f.HiddenSpans))
	}
	if c := f.Cut; c.Any() {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the trace is too large for this answer: %d spans are left out, %d lack attributes, events and links; "+
			"%d attributes, events and links of others are left out, and %d long texts are cut", c.Spans, c.Short, c.Fields, c.Texts))
	}
	// By span, because ids may occur twice.
	warnings := map[ptrace.Span][]string{}
	for i := range t.Spans {
		if w := warn(&t.Spans[i], &f); w != nil {
			warnings[t.Spans[i].Span] = w
		}
	}
	splitShared(t)
	batches := translate.ProtoFromTraces(td)
	for _, rs := range td.ResourceSpans().All() {
		if rs.Resource().Attributes().Len() == 0 && rs.ScopeSpans().Len() == 0 {
			continue // the translator makes no batch for these
		}
		batch := batches[0]
		batches = batches[1:]
		id := "p" + strconv.Itoa(len(out.Processes)+1)
		out.Processes[id] = process{batch.Process.ServiceName, keyValues(batch.Process.Tags)}
		i := 0
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				out.Spans = append(out.Spans, convertSpan(batch.Spans[i], s, id, warnings[s]))
				i++
			}
		}
	}
	return out
}

// splitShared gives the server's span of a call another id, where it shares the client's: Jaeger's page and Grafana tell
// spans by their ids. Jaeger's query service does so, too.
func splitShared(t *waterfall.Trace) {
	var servers map[int]pcommon.SpanID // new ids, by index
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.Above < 0 {
			continue
		}
		if id, ok := servers[s.Above]; ok {
			s.SetParentSpanID(id)
		} else if id := s.SpanID(); id == t.Spans[s.Above].SpanID() {
			own := id
			for j := range own {
				own[j] = ^id[j]
			}
			if servers == nil {
				servers = map[int]pcommon.SpanID{}
			}
			servers[i] = own
			s.SetSpanID(own)
			s.SetParentSpanID(id)
		}
	}
}

func convertSpan(from *model.Span, s ptrace.Span, processID string, warnings []string) span {
	out := span{
		TraceID: idText(s.TraceID()), SpanID: s.SpanID().String(), Operation: from.OperationName,
		References: make([]reference, 0, len(from.References)),
		Start:      uint64(s.StartTimestamp()) / 1000,
		Tags:       keyValues(from.Tags), Logs: make([]log, 0, len(from.Logs)),
		ProcessID: processID, Warnings: warnings,
	}
	if end := uint64(s.EndTimestamp()); end > uint64(s.StartTimestamp()) {
		out.Duration = (end - uint64(s.StartTimestamp())) / 1000
	}
	for _, r := range from.References {
		kind := "CHILD_OF"
		if r.RefType == model.FollowsFrom {
			kind = "FOLLOWS_FROM"
		}
		out.References = append(out.References, reference{kind, r.TraceID.String(), r.SpanID.String()})
	}
	for i, l := range from.Logs {
		out.Logs = append(out.Logs, log{uint64(s.Events().At(i).Timestamp()) / 1000, keyValues(l.Fields)})
	}
	return out
}

// keyValues is never nil: Grafana maps over the list.
func keyValues(from []model.KeyValue) []keyValue {
	out := make([]keyValue, 0, len(from))
	for _, kv := range from {
		k := keyValue{Key: kv.Key, Type: strings.ToLower(kv.VType.String())}
		switch kv.VType {
		case model.BoolType:
			k.Value = kv.VBool
		case model.Int64Type:
			k.Value = kv.VInt64
			if kv.VInt64 > maxSafe || kv.VInt64 < minSafe {
				k.Value = strconv.FormatInt(kv.VInt64, 10)
			}
		case model.Float64Type:
			k.Value = kv.VFloat64
			if math.IsNaN(kv.VFloat64) || math.IsInf(kv.VFloat64, 0) {
				k.Type, k.Value = "string", strconv.FormatFloat(kv.VFloat64, 'g', -1, 64)
			}
		case model.BinaryType:
			k.Value = kv.VBinary // encoding/json writes base64, as Jaeger does
		default:
			k.Value = kv.VStr
		}
		out = append(out, k)
	}
	return out
}

func warn(s *waterfall.Span, f *store.Found) []string {
	var out []string
	switch {
	case s.MissingParent && f.Parent(s.Span):
		out = append(out, "the parent span is of a service that the reader may not see")
	case s.MissingParent:
		out = append(out, "the parent span "+s.ParentSpanID().String()+" is not in the trace")
	}
	if s.MissingServer && !f.Child(s.Span) {
		out = append(out, "the called service is traced, but its span is not in the trace")
	}
	if s.Late {
		out = append(out, "the span arrived after its trace was emitted")
	}
	if s.ClockOffset != 0 {
		out = append(out, fmt.Sprintf("the clock was corrected by %d ns", s.ClockOffset))
	}
	if s.LinkedBy != "" {
		out = append(out, "the parent was found by "+s.LinkedBy)
	}
	if s.EndTimestamp() < s.StartTimestamp() {
		out = append(out, "the span ends before it starts")
	}
	return out
}

// idText is a trace id as Jaeger writes it: 16 digits if the first 16 are zero.
func idText(id pcommon.TraceID) string {
	return strings.TrimPrefix(id.String(), "0000000000000000")
}
