package sink

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/span"
)

// decoder turns OTLP into spans. Names repeat a million times: it keeps one
// copy of each.
type decoder struct {
	keys      []string // attributes to keep; nil: all
	texts     map[string]string
	resources map[string]*span.Resource
	spans     []span.Span
}

func newDecoder(keys []string) *decoder {
	return &decoder{keys: keys, texts: map[string]string{}, resources: map[string]*span.Resource{}}
}

// add appends the spans of a request; if only is not zero, those of one trace.
func (d *decoder) add(req *collector.ExportTraceServiceRequest, only span.TraceID) error {
	for _, rs := range req.GetResourceSpans() {
		resource := d.resource(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				if !only.IsZero() && string(s.GetTraceId()) != string(only[:]) {
					continue
				}
				sp, err := d.span(s)
				if err != nil {
					return err
				}
				sp.Resource = resource
				d.spans = append(d.spans, sp)
			}
		}
	}
	return nil
}

func (d *decoder) resource(attrs []*common.KeyValue) *span.Resource {
	service := ""
	for _, kv := range attrs {
		if kv.GetKey() == "service.name" {
			service = kv.GetValue().GetStringValue()
		}
	}
	r := d.resources[service]
	if r == nil {
		r = &span.Resource{Service: service}
		d.resources[service] = r
	}
	return r
}

func (d *decoder) span(s *trace.Span) (span.Span, error) {
	var out span.Span
	if len(s.GetTraceId()) != len(out.TraceID) || len(s.GetSpanId()) != len(out.ID) {
		return out, fmt.Errorf("span %q has ids of %d and %d bytes", s.GetName(), len(s.GetTraceId()), len(s.GetSpanId()))
	}
	copy(out.TraceID[:], s.GetTraceId())
	copy(out.ID[:], s.GetSpanId())
	switch parent := s.GetParentSpanId(); len(parent) {
	case 0:
	case len(out.Parent):
		copy(out.Parent[:], parent)
	default:
		return out, fmt.Errorf("span %q has a parent id of %d bytes", s.GetName(), len(parent))
	}
	out.Kind = span.Kind(s.GetKind())                 //nolint:gosec // the values are OTLP's
	out.Status = span.Status(s.GetStatus().GetCode()) //nolint:gosec // the values are OTLP's
	out.Name = d.text(s.GetName())
	out.TraceState = d.text(s.GetTraceState())
	out.Start, out.End = s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano()
	for _, kv := range s.GetAttributes() {
		if d.keys == nil || slices.Contains(d.keys, kv.GetKey()) {
			out.Attrs = append(out.Attrs, d.attr(kv))
		}
	}
	return out, nil
}

func (d *decoder) attr(kv *common.KeyValue) span.Attr {
	key := d.text(kv.GetKey())
	switch v := kv.GetValue().GetValue().(type) {
	case *common.AnyValue_StringValue:
		return span.String(key, v.StringValue)
	case *common.AnyValue_IntValue:
		return span.Int(key, v.IntValue)
	case *common.AnyValue_BoolValue:
		return span.Bool(key, v.BoolValue)
	case *common.AnyValue_DoubleValue:
		return span.String(key, strconv.FormatFloat(v.DoubleValue, 'g', -1, 64))
	case *common.AnyValue_ArrayValue:
		if one := v.ArrayValue.GetValues(); len(one) == 1 { // such as an element of metadata
			return span.String(key, one[0].GetStringValue())
		}
		return span.String(key, kv.GetValue().String())
	default:
		return span.String(key, kv.GetValue().String())
	}
}

func (d *decoder) text(s string) string {
	if kept, ok := d.texts[s]; ok {
		return kept
	}
	if len(d.texts) < 10_000 { // a tracer may put what it likes in a name
		d.texts[s] = s
	}
	return s
}

// Each decodes what has been kept, in the order of arrival, until f returns an
// error. A body that is not OTLP is an error.
func (s *Sink) Each(f func(*collector.ExportTraceServiceRequest) error) error {
	return s.kept.each(func(body []byte) error {
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &req); err != nil {
			return err
		}
		return f(&req)
	})
}

// Bodies calls f with everything that has been kept, request by request, decompressed and not
// decoded, until f returns an error. A body is only valid until f returns.
func (s *Sink) Bodies(f func(body []byte) error) error { return s.kept.each(f) }

// Write writes everything that was kept as one message of OTLP: requests one after the other
// are one that has the resources of all.
func (s *Sink) Write(out io.Writer) error {
	return s.kept.each(func(body []byte) error {
		_, err := out.Write(body)
		return err
	})
}

// Spans decodes everything that was kept, with these attributes only; nil: all. A
// span whose ids have a wrong length is an error. All spans are in memory at once:
// Count and Trees do without.
func (s *Sink) Spans(keys []string) ([]span.Span, error) {
	d := newDecoder(keys)
	err := s.Each(func(req *collector.ExportTraceServiceRequest) error { return d.add(req, span.TraceID{}) })
	return d.spans, err
}

// Trace decodes one trace, with all attributes.
func (s *Sink) Trace(id span.TraceID) ([]span.Span, error) {
	d := newDecoder(nil)
	if id.IsZero() { // no trace has it, and for add it means all
		return nil, nil
	}
	err := s.Each(func(req *collector.ExportTraceServiceRequest) error { return d.add(req, id) })
	return d.spans, err
}
