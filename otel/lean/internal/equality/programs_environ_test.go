package equality_test

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

func environPrograms() []program {
	var out []program
	// busy reaches every limit that a variable can set.
	busy := func(ctx context.Context, e *env) {
		_, s := e.Main().Start(ctx, "busy", trace.WithAttributes(numbered("start", 3)...), trace.WithLinks(numberedLink(0, numbered("l", 6)...), numberedLink(1)))
		s.SetAttributes(attribute.String("text", "0123456789"), attribute.StringSlice("texts", []string{"äöüßäöüß", "a"}))
		s.SetAttributes(numbered("k", 140)...)
		addEvents(140)(s)
		s.AddEvent("many", trace.WithAttributes(numbered("k", 140)...))
		addLinks(140)(s)
		s.End()
	}
	for _, key := range []string{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT"} {
		values := []string{"4", "0", "-1", "many", ""}
		if key == "OTEL_ATTRIBUTE_COUNT_LIMIT" {
			values = append(values, " 4", "4.5", "0x4", "99999999999999999999")
		}
		for _, value := range values {
			out = append(out, program{Name: "environment/" + key + "=" + value, Run: busy, Environ: map[string]string{key: value}})
		}
	}
	out = append(out,
		program{Name: "environment/the span's limit goes before the general one", Run: busy, Environ: map[string]string{
			"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "3", "OTEL_ATTRIBUTE_COUNT_LIMIT": "9", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "2", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "7"}},
		program{Name: "environment/a wrong span's limit does not fall back to the general one", Run: busy, Environ: map[string]string{
			"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "x", "OTEL_ATTRIBUTE_COUNT_LIMIT": "9", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "x", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "7"}},
		limited(program{Name: "environment/options go before limits", Run: busy, Environ: map[string]string{"OTEL_SPAN_EVENT_COUNT_LIMIT": "3"}},
			func(l *sdktrace.SpanLimits) { l.EventCountLimit = 5 }),
		with(program{Name: "environment/options go before the sampler", Run: busy, Environ: map[string]string{"OTEL_TRACES_SAMPLER": "always_off"}},
			options{Sampler: sdktrace.AlwaysSample()}),
	)

	sampled := func(ctx context.Context, e *env) {
		for range 8 {
			family(ctx, e)
		}
		for _, c := range []trace.SpanContext{remote(1, "a=1"), remote(0, "a=1")} {
			family(trace.ContextWithRemoteSpanContext(ctx, c), e)
		}
	}
	for _, sampler := range []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
		" Always_OFF ", "jaeger_remote", "xray", "wrong", ""} {
		args := []string{"", "0"}
		if strings.Contains(sampler, "ratio") {
			args = append(args, "1", "0.5", " 0 ", "-1", "2", "half", "NaN")
		}
		for _, arg := range args {
			p := program{Name: "environment/sampler " + sampler + ", argument " + arg, Run: sampled, Environ: map[string]string{"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": arg}}
			if arg == "0.5" || arg == "NaN" { // the decision is the trace id's: it must be the same in both runs
				p.Options = func(*env) options { return options{IDs: equality.NewIDs()} }
			}
			out = append(out, p)
		}
	}
	return out
}
