package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/web"
)

// askJaeger asks as its page does, and reads the JSON.
func askJaeger(t *testing.T, url string, into any) {
	t.Helper()
	res, body := fetch(t, "GET", url, nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", url, res.Status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatal(err)
	}
}

type jaegerTags []struct {
	Key   string
	Value any
}

type jaegerTraces struct {
	Data []struct {
		TraceID   string
		Spans     []struct{ Tags jaegerTags }
		Processes map[string]struct{ Tags jaegerTags }
	}
}

// Whatever tag a trace shows finds the trace.
func TestJaegerFindsByTheTagsThatItShows(t *testing.T) {
	failed := broken(3, noon)
	failed.of["web"].At(0).Attributes().PutInt("http.response.status_code", 502)
	failed.of["web"].At(1).Attributes().PutInt("http.status_code", 503)
	failed.of["web"].At(1).Status().SetCode(ptrace.StatusCodeOk)
	failed.of["web"].At(0).TraceState().FromRaw("ot=th:8")
	s := serve(t, web.Options{Store: open(t, failed)})
	var shown jaegerTraces
	askJaeger(t, s.URL+"/api/traces/"+failed.id.String(), &shown)
	tags := shown.Data[0].Processes["p1"].Tags
	for _, x := range shown.Data[0].Spans {
		tags = append(tags, x.Tags...)
	}
	seen := map[string]bool{}
	for _, tag := range tags {
		seen[tag.Key] = true
		condition, err := json.Marshal(map[string]string{tag.Key: fmt.Sprint(tag.Value)})
		if err != nil {
			t.Fatal(err)
		}
		var found jaegerTraces
		askJaeger(t, fmt.Sprintf("%s/api/traces?service=web&start=%d&end=%d&tags=%s", s.URL, noon.UnixMicro(),
			noon.Add(time.Second).UnixMicro(), url.QueryEscape(string(condition))), &found)
		service := tag.Key == "tare.trace.late" || tag.Key == "tare.clock.offset_ns" // of another service
		if (len(found.Data) == 1) == service {
			t.Errorf("%s: %d traces", condition, len(found.Data))
		}
	}
	for _, key := range []string{"http.status_code", "error", "span.kind", "otel.scope.name", "otel.status_code", "otel.status_description", "w3c.tracestate", "host.name"} {
		if !seen[key] {
			t.Errorf("no span shows %s", key)
		}
	}
}

// The requests are those of the Monitor tab of Jaeger's page.
func TestJaegerMetrics(t *testing.T) {
	s := serve(t, web.Options{Store: open(t, order(1, noon), broken(3, noon.Add(time.Second)))})
	end := noon.Add(10 * time.Second)
	ask := func(kind, more string) (f struct {
		Name, Type, Help string
		Metrics          []struct {
			Labels       []struct{ Name, Value string }
			MetricPoints []struct {
				GaugeValue struct{ DoubleValue any }
				Timestamp  time.Time
			}
		}
	}) {
		askJaeger(t, fmt.Sprintf("%s/api/metrics/%s?service=web&endTs=%d&lookback=60000&step=30000&ratePer=30000&spanKind=server%s",
			s.URL, kind, end.UnixMilli(), more), &f)
		return f
	}
	for _, c := range []struct {
		kind, more, name, labels string
		values                   []any // of the first series
	}{
		// The order stands for two requests, 20 ms long; the broken one took 5 ms.
		{"latencies", "&quantile=0.5", "service_latencies", "[{service_name web}]", []any{"NaN", "NaN", 20.0}},
		{"latencies", "&quantile=0.95&groupByOperation=true", "service_operation_latencies",
			"[{operation GET /order/{id}} {service_name web}]", []any{"NaN", "NaN", 20.0}},
		{"calls", "&quantile=0.95", "service_call_rate", "[{service_name web}]", []any{0.0, 0.0, 0.1}},
		{"errors", "&quantile=0.95", "service_error_rate", "[{service_name web}]", []any{"NaN", "NaN", 1.0 / 3}},
		{"errors", "&groupByOperation=true", "service_operation_error_rate",
			"[{operation GET /order/{id}} {service_name web}]", []any{"NaN", "NaN", 0.0}},
		{"calls", "&tag=url.path:/order/7", "service_call_rate", "[{service_name web}]", []any{0.0, 0.0, 2.0 / 30}},
	} {
		f := ask(c.kind, c.more)
		if f.Name != c.name || f.Type != "GAUGE" || len(f.Metrics) == 0 || fmt.Sprint(f.Metrics[0].Labels) != c.labels {
			t.Errorf("%s%s: %+v", c.kind, c.more, f)
			continue
		}
		for i, p := range f.Metrics[0].MetricPoints {
			want, isNumber := c.values[i].(float64)
			got, _ := p.GaugeValue.DoubleValue.(float64)
			if isNumber && (got < want*0.98 || got > want*1.02) || !isNumber && p.GaugeValue.DoubleValue != c.values[i] ||
				!p.Timestamp.Equal(end.Add(time.Duration(i-2)*30*time.Second)) {
				t.Errorf("%s%s: point %d is %v at %v, want %v", c.kind, c.more, i, p.GaugeValue.DoubleValue, p.Timestamp, c.values[i])
			}
		}
	}
	var least struct{ Data int }
	if askJaeger(t, s.URL+"/api/metrics/minstep", &least); least.Data != 1 {
		t.Errorf("minstep: %d", least.Data)
	}
	for path, want := range map[string]int{
		"latencies?service=web": 400, "latencies?service=web&quantile=2": 400, "calls": 400, "calls?service=web&spanKind=x": 400,
		"calls?service=web&step=1&lookback=3600000": 400, "nothing?service=web": 404, "calls?service=web&spanKind=SPAN_KIND_SERVER": 200,
		"calls?service=web&step=9000000000000&ratePer=9000000000000": 400, "calls?service=nobody": 200,
	} {
		if res, body := fetch(t, "GET", s.URL+"/api/metrics/"+path, nil); res.StatusCode != want {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
	}
}

// Jaeger's page and Grafana tell spans by their ids: the two sides of a call that share one get two.
func TestJaegerSplitsSharedIDs(t *testing.T) {
	tr := newTrace(4, noon)
	tr.span("web", "GET /", server, 1, 0, 0, 9*ms)
	tr.span("web", "call", client, 2, 1, ms, 8*ms)
	tr.span("stock", "serve", server, 2, 1, 2*ms, 7*ms)
	tr.span("stock", "SELECT", client, 3, 2, 3*ms, 4*ms)
	s := serve(t, web.Options{Store: open(t, tr)})
	var shown struct {
		Data []struct {
			Spans []struct {
				SpanID, OperationName string
				References            []struct{ SpanID string }
			}
		}
	}
	askJaeger(t, s.URL+"/api/traces/"+tr.id.String(), &shown)
	names, above := map[string]string{}, map[string]string{}
	for _, x := range shown.Data[0].Spans {
		names[x.SpanID] = x.OperationName
	}
	for _, x := range shown.Data[0].Spans {
		for _, r := range x.References {
			above[x.OperationName] = names[r.SpanID]
		}
	}
	if want := map[string]string{"call": "GET /", "serve": "call", "SELECT": "serve"}; !maps.Equal(above, want) {
		t.Errorf("parents %v, want %v", above, want)
	}
}
