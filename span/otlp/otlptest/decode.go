// Package otlptest turns OTLP's bytes back into the span model, by the official
// messages: what tests compare with what was sent. Events, all links but the first, status
// messages, schema URLs and scopes are outside of the model and left out.
package otlptest

import (
	"fmt"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/span"
)

// Decode reads an ExportTraceServiceRequest, the body of an OTLP/HTTP request
// or the message of a gRPC one. Spans of one ResourceSpans entry share one
// Resource, which is never nil. The result does not refer to body.
//
// Values that the model has no type for become some text. An unspecified or
// unknown kind is Internal, an unknown status is Unset. One span with an invalid
// id fails the whole body.
func Decode(body []byte) ([]span.Span, error) {
	var req coltracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		return nil, fmt.Errorf("decode OTLP traces: %w", err)
	}
	n := 0
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			n += len(ss.Spans)
		}
	}
	spans := make([]span.Span, 0, n)
	for _, rs := range req.ResourceSpans {
		res := resourceOf(rs.Resource)
		for _, ss := range rs.ScopeSpans {
			for _, p := range ss.Spans {
				s, err := spanOf(p, res)
				if err != nil {
					return nil, fmt.Errorf("decode OTLP traces: span %d: %w", len(spans), err)
				}
				spans = append(spans, s)
			}
		}
	}
	return spans, nil
}

func resourceOf(p *resourcepb.Resource) *span.Resource {
	res := &span.Resource{}
	for _, kv := range p.GetAttributes() {
		if kv.GetKey() == "service.name" {
			res.Service = attrOf(kv).Text()
		} else {
			res.Attrs = append(res.Attrs, attrOf(kv))
		}
	}
	return res
}

func copyID(dst, src []byte) bool {
	return len(src) == len(dst) && copy(dst, src) == len(dst)
}

func spanOf(p *tracepb.Span, res *span.Resource) (s span.Span, err error) {
	if !copyID(s.TraceID[:], p.GetTraceId()) || s.TraceID.IsZero() || !copyID(s.ID[:], p.GetSpanId()) || s.ID.IsZero() ||
		len(p.GetParentSpanId()) != 0 && !copyID(s.Parent[:], p.GetParentSpanId()) {
		return s, fmt.Errorf("invalid ids: trace %x, span %x, parent %x", p.GetTraceId(), p.GetSpanId(), p.GetParentSpanId())
	}
	if len(p.GetLinks()) > 0 {
		l := p.Links[0]
		if !copyID(s.Link.TraceID[:], l.GetTraceId()) || !copyID(s.Link.ID[:], l.GetSpanId()) {
			return s, fmt.Errorf("invalid ids of a link: trace %x, span %x", l.GetTraceId(), l.GetSpanId())
		}
		s.Link.Flags = uint8(l.GetFlags()) //nolint:gosec // W3C's are the lowest
	}
	s.Resource = res
	s.Name = p.GetName()
	s.TraceState = p.GetTraceState()
	s.Start, s.End = p.GetStartTimeUnixNano(), p.GetEndTimeUnixNano()
	s.Kind = kindOf(p.GetKind())
	s.Status = statusOf(p.GetStatus().GetCode())
	if len(p.GetAttributes()) > 0 {
		s.Attrs = make([]span.Attr, len(p.Attributes))
		for i, kv := range p.Attributes {
			s.Attrs[i] = attrOf(kv)
		}
	}
	return s, nil
}

// kindOf keeps producer and consumer: the model's values are OTLP's.
func kindOf(k tracepb.Span_SpanKind) span.Kind {
	if k < tracepb.Span_SPAN_KIND_INTERNAL || k > tracepb.Span_SPAN_KIND_CONSUMER {
		return span.Internal
	}
	return span.Kind(k) //nolint:gosec // in range, checked above
}

func statusOf(c tracepb.Status_StatusCode) span.Status {
	switch c {
	case tracepb.Status_STATUS_CODE_OK:
		return span.OK
	case tracepb.Status_STATUS_CODE_ERROR:
		return span.Error
	default:
		return span.Unset
	}
}

func attrOf(kv *commonpb.KeyValue) span.Attr {
	switch v := kv.GetValue().GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return span.String(kv.GetKey(), v.StringValue)
	case *commonpb.AnyValue_IntValue:
		return span.Int(kv.GetKey(), v.IntValue)
	case *commonpb.AnyValue_BoolValue:
		return span.Bool(kv.GetKey(), v.BoolValue)
	default:
		return span.String(kv.GetKey(), kv.GetValue().String())
	}
}
