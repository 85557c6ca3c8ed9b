package service

import (
	"reflect"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// live is the tracing as the running objects have it. A configuration that is
// only echoed would say what was asked for, also where nothing obeys it.
type live struct {
	enabled  bool    // the global provider is the SDK's
	sampler  string  // its description of itself
	strategy string  // its name as OTEL_TRACES_SAMPLER has it; "none" without tracing, "unknown"
	rate     float64 // share of the traces that begin here, 0…1; -1 if unknown
	endpoint string  // that spans are sent to: scheme, host and port; "" without tracing
}

func readLive(t *Tracing) live {
	l := live{strategy: "none"}
	provider, ok := otel.GetTracerProvider().(*sdktrace.TracerProvider)
	if !ok {
		return l
	}
	l.enabled, l.strategy, l.rate = true, "unknown", -1
	if s := samplerOf(provider); s != nil {
		l.sampler = s.Description()
		l.strategy, l.rate = parseSampler(l.sampler)
	}
	l.endpoint = endpointOf(t.client)
	return l
}

// samplerOf reads a field that the SDK does not show (v1.47): the sampler may
// come from the environment, by rules of the SDK's own. nil if it is not there.
func samplerOf(provider *sdktrace.TracerProvider) sdktrace.Sampler {
	f := reflect.ValueOf(provider).Elem().FieldByName("sampler")
	if !f.IsValid() || f.Type() != reflect.TypeFor[sdktrace.Sampler]() {
		return nil
	}
	return *(*sdktrace.Sampler)(f.Addr().UnsafePointer())
}

// endpointOf reads where the exporter sends to, which the SDK does not show
// either (v1.47). "" if it is not there.
func endpointOf(client otlptrace.Client) string {
	v := reflect.ValueOf(client)
	if v.Kind() != reflect.Pointer {
		return ""
	}
	config := v.Elem().FieldByName("cfg")
	if config.Kind() != reflect.Struct {
		return ""
	}
	endpoint, insecure := config.FieldByName("Endpoint"), config.FieldByName("Insecure")
	if endpoint.Kind() != reflect.String || insecure.Kind() != reflect.Bool {
		return ""
	}
	scheme := "https://"
	if insecure.Bool() {
		scheme = "http://"
	}
	return scheme + endpoint.String()
}

// parseSampler reads the description of a sampler of the SDK, whose form the
// specification of the SDK prescribes.
func parseSampler(description string) (strategy string, rate float64) {
	root, parents := strings.CutPrefix(description, "ParentBased{root:")
	if parents {
		root, _, _ = strings.Cut(root, ",")
		strategy = "parentbased_"
	}
	ratio, ok := strings.CutPrefix(root, "TraceIDRatioBased{")
	switch {
	case root == "AlwaysOnSampler":
		return strategy + "always_on", 1
	case root == "AlwaysOffSampler":
		return strategy + "always_off", 0
	case ok:
		rate, err := strconv.ParseFloat(strings.TrimSuffix(ratio, "}"), 64)
		if err == nil && rate >= 0 && rate <= 1 { // NaN is neither
			return strategy + "traceidratio", rate
		}
	}
	return "unknown", -1
}
