package adaptive

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func call(h http.Handler, method, body string) (int, http.Header, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", strings.NewReader(body)))
	text, _ := io.ReadAll(w.Body)
	return w.Code, w.Header(), string(text)
}

func TestConfigHandler(t *testing.T) {
	r := newRig(t, DefaultConfig())
	h := r.ConfigHandler()
	for _, c := range []struct {
		method, body string
		code         int
		want         string // in the answer
		rate         float64
	}{
		{"GET", "", 200, `"latency_threshold_ms": 1000`, 0.05},
		{"PATCH", `{"base_rate":0.2,"update_interval_s":5}`, 200, `"update_interval_s": 5`, 0.2},
		{"PATCH", `{"budget":{"traces_per_second":10}}`, 200, `"traces_per_second": 10`, 0.2},
		{"PATCH", `{"budget":{"p99_ms":250}}`, 200, `"traces_per_second": 10`, 0.2},
		{"PATCH", `{"base_rate":0.3,"max_rate":0.1}`, 400, "above the maximum", 0.2},
		{"PATCH", `{"base_rate":"0.3"}`, 400, "base_rate", 0.2},
		{"PATCH", `{"baserate":0.3}`, 400, "unknown field", 0.2},
		{"PATCH", `{"base_rate":0.3} {}`, 400, "after top-level value", 0.2},
		{"PATCH", `{"latency_trigger":"p100"}`, 400, "latency trigger", 0.2},
		{"PATCH", `{"update_interval_s":0}`, 400, "update interval", 0.2},
		{"PATCH", `{"update_interval_s":1e300}`, 400, "out of range", 0.2},
		{"PATCH", ``, 400, "JSON", 0.2},
		{"PATCH", `null`, 400, "JSON object", 0.2},
		{"PATCH", `{` + strings.Repeat(" ", maxFile) + `}`, 413, "too large", 0.2},
		{"PUT", `{"error_boost":4}`, 200, `"update_interval_s": 30`, 0.05},
		{"POST", `{}`, 405, "GET, HEAD, PUT, PATCH", 0.05},
		{"DELETE", ``, 405, "GET, HEAD, PUT, PATCH", 0.05},
	} {
		code, header, text := call(h, c.method, c.body)
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %.40s: %d %s; want %d and %q", c.method, c.body, code, text, c.code, c.want)
		}
		if !json.Valid([]byte(text)) || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %.40s: not JSON: %s", c.method, c.body, text)
		}
		if code == 405 && header.Get("Allow") == "" {
			t.Errorf("%s: no Allow", c.method)
		}
		r.wantRate(c.rate)
	}
	assert.EqualValues(t, 4, r.Config().ErrorBoost, "error boost")
	if code, _, _ := call(h, "HEAD", ""); code != 200 {
		t.Errorf("HEAD: %d", code)
	}
}

func TestIncidentHandler(t *testing.T) {
	r := newRig(t, DefaultConfig())
	h := r.IncidentHandler()
	until := r.now.Add(time.Minute).Format(time.RFC3339)
	for _, c := range []struct {
		method, body string
		code         int
		want         string
		rate         float64
	}{
		{"GET", "", 200, `"active": []`, 0.05},
		{"DELETE", "", 404, "no incident", 0.05},
		{"POST", `{"rate":0.5,"duration":"1m","reason":"<checkout>"}`, 200, `"reason": "<checkout>"`, 0.5},
		{"POST", `{"rate":0.6,"until":"` + until + `"}`, 200, `"action": "replaced"`, 0.6},
		{"POST", `{"duration":"1h"}`, 200, `"source": "http 192.0.2.1:1234"`, 1},
		{"POST", `{"rate":0.5}`, 400, "give a duration", 1},
		{"POST", `{"rate":2,"duration":"1m"}`, 400, "rate is 2", 1},
		{"POST", `{"rate":0.5,"duration":"500h"}`, 400, "at most 168h", 1},
		{"POST", `{"rate":0.5,"until":"2000-01-01T00:00:00Z"}`, 400, "duration is -", 1},
		{"POST", `not JSON`, 400, "want JSON such as", 1},
		{"POST", `"` + strings.Repeat("x", maxFile) + `"`, 413, "too large", 1},
		{"PUT", `{}`, 405, "GET, HEAD, POST, DELETE", 1},
		{"DELETE", "", 200, `"action": "ended"`, 0.05},
	} {
		code, _, text := call(h, c.method, c.body)
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %.60s: %d %s; want %d and %q", c.method, c.body, code, text, c.code, c.want)
		}
		r.wantRate(c.rate)
	}
}

// The names in the state are a contract: whoever reads /adaptive-metrics
// depends on them.
func TestStateSchema(t *testing.T) {
	r := newRig(t, DefaultConfig(), WithRoutes(0), WithRules(Never(named("GET /health"))))
	r.observe("GET /", true, 2*time.Second)
	r.observe("GET /", false, ok)
	r.wait(30 * time.Second)
	require.NoError(t, r.StartIncident(0.5, time.Minute, "why"))
	code, header, text := call(r.StateHandler(), "GET", "")
	if code != 200 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v", code, header)
	}
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	var got []string
	names("", v, &got)
	slices.Sort(got)
	want := strings.Fields(`
		alerts.active alerts.full alerts.ignored alerts.over alerts.raised alerts.refused alerts.repeated alerts.requests alerts.resolved
		boosts.error boosts.latency
		budget.cpu_cores budget.demand_traces_per_second budget.factor budget.limited_by budget.p99_ms
		config.base_rate config.budget.cpu_cores config.budget.p99_ms config.budget.traces_per_second
		config.error_boost config.error_share config.latency_boost config.latency_threshold_ms
		config.latency_trigger config.max_rate config.min_rate config.update_interval_s
		decisions.capped decisions.never decisions.sampled decisions.total decisions.unsampled
		description
		incident.active.rate incident.active.reason incident.active.since incident.active.source incident.active.until
		incident.audit.action incident.audit.rate incident.audit.reason incident.audit.source incident.audit.time
		incident.audit.until incident.audit_dropped incident.rate
		interval.failed interval.mean_ms interval.p50_ms interval.p95_ms interval.p99_ms interval.seconds interval.slow interval.total
		observations.failed observations.slow observations.total
		pressure rate
		routes.boosts.error routes.boosts.latency
		routes.interval.failed routes.interval.mean_ms routes.interval.p50_ms routes.interval.p95_ms routes.interval.p99_ms
		routes.interval.seconds routes.interval.slow routes.interval.total
		routes.observations.failed routes.observations.slow routes.observations.total routes.rate routes.route
		rules.base_rate rules.decision rules.match.name rules.rate
		time`)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("names in the state:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var st State
	require.NoError(t, json.Unmarshal([]byte(text), &st))
	if i := st.Interval; i.Total != 2 || i.Failed != 1 || i.Slow != 1 || i.MeanMS != 1005 || i.Seconds != 30 {
		t.Errorf("interval: %+v", i)
	}
	if len(st.Routes) != 1 || !close4(st.Routes[0].Rate, 0.5) || !st.Routes[0].Boosts.Error || st.Config != DefaultConfig() {
		t.Errorf("state: %+v", st)
	}
	if code, _, _ := call(r.StateHandler(), "POST", ""); code != 405 {
		t.Errorf("POST: %d", code)
	}
}

func names(path string, v any, to *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			names(strings.TrimPrefix(path+"."+k, "."), x, to)
		}
	case []any:
		for _, x := range v {
			names(path, x, to)
		}
	default:
		if !slices.Contains(*to, path) {
			*to = append(*to, path)
		}
	}
}
