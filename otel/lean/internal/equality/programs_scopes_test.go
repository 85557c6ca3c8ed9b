package equality_test

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func scopePrograms() []program {
	type scope struct {
		name string
		opts []trace.TracerOption
	}
	version, schema := trace.WithInstrumentationVersion, trace.WithSchemaURL
	attrs := trace.WithInstrumentationAttributes
	scopes := []scope{
		{"a", nil}, {"b", nil}, {"a", nil}, {"", nil}, {"", []trace.TracerOption{version("1")}}, {"go.opentelemetry.io/otel/sdk/tracer", nil},
		{"a", []trace.TracerOption{version("1.0.0")}}, {"a", []trace.TracerOption{version("2.0.0")}}, {"a", []trace.TracerOption{version("")}},
		{"a", []trace.TracerOption{schema("https://opentelemetry.io/schemas/1.26.0")}}, {"a", []trace.TracerOption{schema("https://example.com/s"), version("1.0.0")}},
		{"a", []trace.TracerOption{attrs(attribute.Int("x", 1))}}, {"a", []trace.TracerOption{attrs(attribute.Int("x", 2))}},
		{"a", []trace.TracerOption{attrs(attribute.String("z", "1"), attribute.Int("b", 2), attribute.Int("z", 3))}},
		{"a", []trace.TracerOption{attrs(attribute.Int("x", 1)), attrs(attribute.Int("x", 2), attribute.Int("y", 2))}},
		{"a", []trace.TracerOption{attrs(everyType()...)}}, {"a", []trace.TracerOption{attrs(attribute.Map("m", attribute.Int("k", 1), attribute.Int("k", 2)))}},
		{"a", []trace.TracerOption{trace.WithInstrumentationAttributeSet(*attribute.EmptySet())}}, {"ä 名\x00", nil},
		{"a", []trace.TracerOption{attrs(attribute.Int("", 2), attribute.KeyValue{})}},
	}
	tree := func(ctx context.Context, e *env) {
		for i, s := range scopes {
			var span trace.Span
			ctx, span = e.Tracer(s.name, s.opts...).Start(ctx, "span", trace.WithAttributes(attribute.Int("i", i)))
			defer span.End()
		}
	}
	flat := func(ctx context.Context, e *env) {
		for round := range 3 {
			for i, s := range scopes {
				_, span := e.Tracer(s.name, s.opts...).Start(ctx, "span", trace.WithAttributes(attribute.Int("i", i), attribute.Int("round", round)))
				span.End()
			}
		}
	}
	return []program{
		{Name: "scopes/one in another", Run: tree},
		{Name: "scopes/by turns", Run: flat},
		limited(program{Name: "scopes/attributes and limits", Run: flat}, func(l *sdktrace.SpanLimits) {
			l.AttributeCountLimit, l.AttributeValueLengthLimit, l.AttributeValueDepthLimit = 1, 2, 1
		}),
		{Name: "scopes/none used", Run: func(_ context.Context, e *env) { e.Tracer("unused"); e.Main() }},
	}
}

func resourcePrograms() []program {
	some := func(ctx context.Context, e *env) { family(ctx, e) }
	schema := "https://opentelemetry.io/schemas/1.26.0"
	res := func(name string, r *resource.Resource) program {
		return with(program{Name: "resource/" + name, Run: some}, options{Resource: r})
	}
	return []program{
		{Name: "resource/default", Run: some},
		res("empty", resource.Empty()),
		res("without schema", resource.NewSchemaless(attribute.String("service.name", "x"))),
		res("only a schema", resource.NewWithAttributes(schema)),
		res("with schema", resource.NewWithAttributes(schema, attribute.String("service.name", "x"), attribute.Int("b", 1), attribute.Int("a", 2))),
		res("duplicates", resource.NewSchemaless(attribute.Int("a", 1), attribute.Int("b", 2), attribute.Int("a", 3))),
		res("of every type", resource.NewSchemaless(everyType()...)),
		limited(res("is not limited", resource.NewSchemaless(everyType()...)), func(l *sdktrace.SpanLimits) {
			l.AttributeCountLimit, l.AttributeValueLengthLimit, l.AttributeValueDepthLimit = 1, 2, 1
		}),
		{Name: "resource/of the environment", Run: some, Environ: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "team=x,service.name=a,k=%20v", "OTEL_SERVICE_NAME": "by name"},
			Options: func(*env) options {
				return options{Resource: resource.NewSchemaless(attribute.String("own", "1"), attribute.String("team", "own"))}
			}},
		{Name: "resource/of an environment that is wrong", Run: some, Environ: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "a=1,b,%zz=3"},
			Options: func(*env) options { return options{Resource: resource.NewSchemaless(attribute.String("own", "1"))} }},
		{Name: "resource/schemas that conflict", Run: some, Environ: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "a=1"},
			Options: func(*env) options {
				return options{Resource: resource.NewWithAttributes("https://example.com/other", attribute.String("own", "1"))}
			}},
	}
}
