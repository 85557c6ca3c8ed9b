package lean

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/wire"
)

// resourceHead encodes the part of ResourceSpans that is the same in every request: resource and
// schema URL.
func resourceHead(r *resource.Resource, red Redactor) []byte {
	b, start := wire.Open(nil, wire.ResourceSpansResource, 1)
	b = appendIter(b, wire.ResourceAttribute, r.Iter(), valueLimits{depth: -1, length: -1, raw: true}, red)
	b = wire.Close(b, start, 1)
	return appendSchema(b, r.SchemaURL())
}

// scopeHead encodes the part of ScopeSpans that is the same in every request: scope and schema URL.
func scopeHead(s instrumentation.Scope, limits sdktrace.SpanLimits, red Redactor) []byte {
	b, start := wire.Open(nil, wire.ScopeSpansScope, 1)
	b = wire.AppendBytes(b, wire.ScopeName, wire.Text(s.Name))
	if s.Version != "" {
		b = wire.AppendBytes(b, wire.ScopeVersion, wire.Text(s.Version))
	}
	b = appendIter(b, wire.ScopeAttribute, s.Attributes.Iter(), valueLimits{depth: limits.AttributeValueDepthLimit, length: -1}, red)
	b = wire.Close(b, start, 1)
	return appendSchema(b, s.SchemaURL)
}

func appendIter(b []byte, tag byte, it attribute.Iterator, lim valueLimits, red Redactor) []byte {
	for it.Next() {
		kv := it.Attribute()
		if red != nil {
			var ok bool
			if kv, ok = red.Attribute(kv); !ok {
				continue
			}
		}
		b = appendKeyValue(b, tag, &kv, lim)
	}
	return b
}

func appendSchema(b []byte, url string) []byte {
	if url == "" {
		return b
	}
	return wire.AppendBytes(b, wire.SchemaURL, wire.Text(url))
}
