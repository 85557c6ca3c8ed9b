package lean

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// resourceHead encodes what of ResourceSpans is the same in every request: resource, schema URL.
func resourceHead(r *resource.Resource, red Redactor) []byte {
	b, start := openField(nil, tagResource)
	b = appendIter(b, tagResAttribute, r.Iter(), valueLimits{depth: -1, length: -1, raw: true}, red)
	b = closeField(b, start)
	return appendSchema(b, r.SchemaURL())
}

// scopeHead encodes what of ScopeSpans is always the same: scope, schema URL.
func scopeHead(s instrumentation.Scope, limits sdktrace.SpanLimits, red Redactor) []byte {
	b, start := openField(nil, tagScope)
	b = appendString(b, tagScopeName, validText(s.Name))
	if s.Version != "" {
		b = appendString(b, tagScopeVersion, validText(s.Version))
	}
	b = appendIter(b, tagScopeAttribute, s.Attributes.Iter(), valueLimits{depth: limits.AttributeValueDepthLimit, length: -1}, red)
	b = closeField(b, start)
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
	return appendString(b, tagSchemaURL, validText(url))
}
