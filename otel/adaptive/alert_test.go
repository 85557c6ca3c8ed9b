package adaptive

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/rule"
)

func alertHandler(t testing.TB, s *Sampler, c AlertConfig) http.Handler {
	t.Helper()
	h, err := s.AlertHandler(c)
	require.NoError(t, err)
	return h
}

// alertJSON is a notification about one alert, as Alertmanager 0.25 sends it; labels are keys and values.
func alertJSON(status string, since time.Time, labels ...string) string {
	m := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	text, err := json.Marshal(map[string]any{
		"version": "4", "groupKey": `{}:{alertname="x"}`, "truncatedAlerts": 0, "status": status, "receiver": "sampler",
		"groupLabels": m, "commonLabels": m, "commonAnnotations": map[string]string{}, "externalURL": "http://alertmanager:9093",
		"alerts": []any{map[string]any{
			"status": status, "labels": m, "annotations": map[string]string{"summary": "it is slow"}, "startsAt": since,
			"endsAt": time.Time{}, "generatorURL": "http://prometheus:9090/graph", "fingerprint": "1a30ba71cca2921f",
		}},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func firing(since time.Time, labels ...string) string { return alertJSON("firing", since, labels...) }
func resolved(since time.Time, labels ...string) string {
	return alertJSON("resolved", since, labels...)
}

func TestAlertsBySeverity(t *testing.T) {
	for severity, want := range map[string]float64{"critical": 1, "page": 1, "error": 0.5, "warning": 0.25, "info": 0.05, "": 0.05, "criticality": 0.05} {
		r := newRig(t, DefaultConfig())
		h := alertHandler(t, r.Sampler, AlertConfig{})
		if code, _, text := call(h, "POST", firing(r.now, "alertname", "Slow", "severity", severity)); code != 200 || !json.Valid([]byte(text)) {
			t.Fatalf("%q: %d %s", severity, code, text)
		}
		r.wantRate(want)
		call(h, "POST", resolved(r.now, "alertname", "Slow", "severity", severity))
		r.wantRate(0.05)
		if active := r.State().Incident.Active; len(active) != 0 {
			t.Errorf("%q: still %v", severity, active)
		}
	}
}

// The life of an alert: repeated, resolved, over its time, with others beside it.
func TestAlertsInTime(t *testing.T) {
	r := newRig(t, DefaultConfig())
	h := alertHandler(t, r.Sampler, AlertConfig{Limit: 10 * time.Minute})
	since := r.now.Add(-time.Minute)
	post := func(text string, rate float64, count func(AlertTotals) uint64, want uint64) {
		t.Helper()
		if code, _, answer := call(h, "POST", text); code != 200 {
			t.Fatalf("%d %s", code, answer)
		}
		r.wantRate(rate)
		if got := count(r.State().Alerts); got != want {
			t.Errorf("counted %d times, want %d: %+v", got, want, r.State().Alerts)
		}
	}
	raised := func(a AlertTotals) uint64 { return a.Raised }
	post(firing(since, "alertname", "A", "severity", "warning"), 0.25, raised, 1)
	post(firing(since, "severity", "warning", "alertname", "A"), 0.25, func(a AlertTotals) uint64 { return a.Repeated }, 1)
	post(firing(r.now, "alertname", "B", "severity", "error"), 0.5, raised, 2)
	require.NoError(t, r.StartIncident(0.4, time.Hour, "by hand"))
	post(resolved(since, "alertname", "B", "severity", "error"), 0.4, func(a AlertTotals) uint64 { return a.Resolved }, 1)
	assert.True(t, r.EndIncident(""), "the alert ended the incident")
	post(resolved(since, "alertname", "B", "severity", "error"), 0.25, func(a AlertTotals) uint64 { return a.Ignored }, 1)
	r.wait(9*time.Minute - 1)
	r.wantRate(0.25)
	r.wait(time.Second)
	r.wantRate(0.05)
	over := func(a AlertTotals) uint64 { return a.Over }
	post(firing(since, "alertname", "A", "severity", "warning"), 0.05, over, 1) // Alertmanager repeats what fires
	post(firing(r.now, "alertname", "A", "severity", "warning"), 0.25, raised, 3)
	post(firing(r.now.Add(time.Hour), "alertname", "C", "severity", "error"), 0.5, raised, 4) // its clock is ahead
	r.wait(10*time.Minute + time.Second)
	r.wantRate(0.05)
	if got, want := actions(r), "started alertmanager 192.0.2.1:1234, started alertmanager 192.0.2.1:1234, started program, "+
		"ended alertmanager 192.0.2.1:1234, ended program, expired alertmanager 192.0.2.1:1234, started alertmanager 192.0.2.1:1234, "+
		"started alertmanager 192.0.2.1:1234, expired alertmanager 192.0.2.1:1234, expired alertmanager 192.0.2.1:1234"; got != want {
		t.Errorf("audit: %s\nwant:  %s", got, want)
	}
	// MaxRate, pressure and the budget are above it.
	r.SetPressure(0.5)
	post(firing(r.now, "alertname", "A", "severity", "critical"), 0.5, raised, 5)
}

// An operator ends what alerts raise: they stay ended while they are repeated, and count again when they begin anew.
func TestEndAlerts(t *testing.T) {
	r := newRig(t, DefaultConfig())
	h := alertHandler(t, r.Sampler, AlertConfig{})
	first := firing(r.now, "severity", "critical")
	call(h, "POST", first)
	if code, _, text := call(h, "GET", ""); code != 200 || !strings.Contains(text, `"source": "alertmanager 192.0.2.1:1234"`) {
		t.Errorf("%d %s", code, text)
	}
	if code, _, _ := call(h, "DELETE", ""); code != 200 {
		t.Errorf("DELETE: %d", code)
	}
	if code, _, _ := call(h, "DELETE", ""); code != 404 {
		t.Errorf("another DELETE: %d", code)
	}
	call(h, "POST", first)
	r.wantRate(0.05)
	r.now = r.now.Add(time.Minute)
	call(h, "POST", firing(r.now, "severity", "critical"))
	r.wantRate(1)
	if !r.EndAlerts("enough") || r.EndAlerts("again") {
		t.Error("EndAlerts does not say whether there was something to end")
	}
	call(h, "POST", resolved(r.now, "severity", "critical"))
	call(h, "POST", first)
	r.wantRate(1) // it is not known any more
	r.endAllIncidents()
	r.wantRate(0.05)
}

func TestAlertsByRoute(t *testing.T) {
	c := withRates(0.1)
	c.Budget.TracesPerSecond = 1000
	for _, config := range []Config{withRates(0.1), c} {
		r := newRig(t, config, WithRoutes(2), WithRules(Never(named("GET /health")), Base(named("GET /b*"), 0.2)))
		h := alertHandler(t, r.Sampler, AlertConfig{Rules: []AlertRule{
			{Match: rule.MustCompile(rule.Spec{Name: "Ignored*"})},
			{Match: named("Cart*"), Rate: 0.5, Route: "GET /cart", RouteLabel: "route"},
			{Match: rule.MustCompile(rule.Spec{Attributes: map[string]string{"team": "shop"}}), Rate: 0.3},
		}})
		rates := func(cart, buy, other float64) {
			t.Helper()
			for route, want := range map[string]float64{"GET /cart": cart, "GET /buy": buy, "GET /other": other} {
				if got := r.RateOf(route); !close4(got, want) {
					t.Errorf("%s: %v, want %v", route, got, want)
				}
			}
		}
		call(h, "POST", firing(r.now, "alertname", "IgnoredCart", "team", "shop"))
		rates(0.1, 0.1, 0.1)
		call(h, "POST", firing(r.now, "alertname", "CartSlow"))
		rates(0.5, 0.1, 0.1)
		sampledOf := func(name string) (n int) {
			for range 4000 {
				if yes(r.ask(name)) {
					n++
				}
				r.now = r.now.Add(10 * time.Millisecond)
			}
			return n
		}
		if n := sampledOf("GET /cart"); n < 1850 || n > 2150 {
			t.Errorf("%d of 4000 carts were sampled, want about half", n)
		}
		if n := sampledOf("GET /other"); n < 300 || n > 500 {
			t.Errorf("%d of 4000 others were sampled, want about a tenth", n)
		}
		assert.Equal(t, 0, sampledOf("GET /health"), "health checks were sampled")
		call(h, "POST", firing(r.now, "alertname", "CartDown", "route", "GET /buy"))
		rates(0.5, 0.5, 0.1)
		call(h, "POST", firing(r.now, "alertname", "CartDown", "route", "GET /a third one")) // no room: as all that share one rate
		rates(0.5, 0.5, 0.5)
		call(h, "POST", resolved(r.now, "alertname", "CartDown", "route", "GET /a third one"))
		call(h, "POST", firing(r.now, "alertname", "Other", "team", "shop"))
		rates(0.5, 0.5, 0.3)
		call(h, "POST", resolved(r.now, "alertname", "CartSlow"))
		rates(0.3, 0.5, 0.3)
		st := r.State().Incident
		if len(st.Active) != 2 || st.Active[0].Route != "GET /buy" || st.Active[1].Route != "" || st.Rate != 0.3 {
			t.Errorf("%+v", st.Active)
		}
	}
}

func TestAlertsAreBounded(t *testing.T) {
	r := newRig(t, DefaultConfig(), WithRoutes(4))
	h := alertHandler(t, r.Sampler, AlertConfig{Rules: []AlertRule{{Rate: 0.5, RouteLabel: "route"}}})
	for i := range maxAlerts + 10 {
		call(h, "POST", firing(r.now, "alertname", fmt.Sprint(i), "route", fmt.Sprint("r", i)))
	}
	if a := r.State().Alerts; a.Active != maxAlerts || a.Full != 10 || len(*r.routes.Load()) != 4 || len(r.State().Incident.Audit) != maxEvents {
		t.Errorf("%+v, %d routes", a, len(*r.routes.Load()))
	}
	call(h, "POST", firing(r.now, "alertname", strings.Repeat("ä", maxNotification/16)))
	r.wait(time.Hour)
	if a := r.State().Alerts; a.Active != 0 {
		t.Errorf("%+v", a)
	}
	call(h, "POST", firing(r.now, "alertname", "x", "severity", strings.Repeat("ä", maxNotification/16)))
	assert.LessOrEqual(t, len(r.State().Incident.Active[0].Reason), maxReason+3)
}

func TestAlertRequests(t *testing.T) {
	r := newRig(t, DefaultConfig())
	h := alertHandler(t, r.Sampler, AlertConfig{Token: "secret"})
	good := firing(r.now, "severity", "critical")
	for _, c := range []struct {
		method, authorization, body string
		code                        int
		want                        string
	}{
		{"POST", "", good, 401, "Authorization: Bearer"},
		{"POST", "Bearer", good, 401, "Authorization: Bearer"},
		{"POST", "Bearer secret2", good, 401, "Authorization: Bearer"},
		{"POST", "Basic secret", good, 401, "Authorization: Bearer"},
		{"GET", "", "", 401, "Authorization: Bearer"},
		{"DELETE", "Bearer x", "", 401, "Authorization: Bearer"},
		{"POST", "Bearer secret", "", 400, "Alertmanager"},
		{"POST", "Bearer secret", good + "x", 400, "Alertmanager"},
		{"POST", "Bearer secret", strings.Replace(good, `"version":"4"`, `"version":"1"`, 1), 400, "version is"},
		{"POST", "Bearer secret", `{"version":"4","alerts":[{"status":"firing"}]}`, 400, "alert 1 has no startsAt"},
		{"POST", "Bearer secret", alertJSON("", r.now), 400, "alert 1: status"},
		{"POST", "Bearer secret", `"` + strings.Repeat("x", maxNotification) + `"`, 413, "too large"},
		{"PUT", "Bearer secret", good, 405, "GET, HEAD, POST, DELETE"},
		{"POST", "bearer secret", good, 200, `"rate": 1`},
		{"GET", "Bearer secret", "", 200, `"action": "started"`},
		{"POST", "Bearer secret", `{"version":"4"}`, 200, `"rate": 1`},
	} {
		w := httptest.NewRecorder()
		q := httptest.NewRequest(c.method, "/", strings.NewReader(c.body))
		if c.authorization != "" {
			q.Header.Set("Authorization", c.authorization)
		}
		h.ServeHTTP(w, q)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q %.60s: %d %s; want %d and %q", c.method, c.authorization, c.body, w.Code, w.Body, c.code, c.want)
		}
		if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%d with WWW-Authenticate %q", w.Code, w.Header().Get("WWW-Authenticate"))
		}
		if raised := r.Rate() > 0.06; raised != (w.Code == 200) {
			t.Errorf("%s %q %.60s: %d, and the rate is %v", c.method, c.authorization, c.body, w.Code, r.Rate())
		}
	}
	if a := r.State().Alerts; a.Requests != 2 || a.Refused != 12 || a.Raised != 1 {
		t.Errorf("%+v", a)
	}
}

func TestWrongAlertConfig(t *testing.T) {
	r := newRig(t, DefaultConfig())
	_, err := r.AlertHandler(AlertConfig{Limit: 8 * 24 * time.Hour, Rules: []AlertRule{
		{Rate: 1.5}, {Rate: 1, Route: "GET /"}, {Rate: 1, RouteLabel: "x"}, {Match: rule.MustCompile(rule.Spec{Kind: "server"})},
	}})
	for _, want := range []string{"rule 1: rate is 1.5", "rule 2: the sampler has one rate", "rule 3: the sampler has one", "rule 4: alerts have no kind", "limit is 192h"} {
		assert.ErrorContains(t, err, want)
	}
}

// Whatever a notification says, the rate stays within bounds, a refused one changes nothing, and what it raised is
// over after the limit.
func FuzzAlerts(f *testing.F) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, seed := range []string{
		firing(now, "alertname", "A", "severity", "critical"), resolved(now, "route", "GET /"), firing(now.AddDate(100, 0, 0), "severity", "error"),
		firing(now.AddDate(-100, 0, 0), "severity", "error", "route", "x"), `{"version":"4","alerts":[null]}`, `{"version":4}`, `[]`, "", "\xff",
		`{"version":"4","alerts":[{"status":"firing","startsAt":"0000-01-01T00:00:00Z","labels":{"severity":"warning","":"\ud800"}}]}`,
		`{"version":"4","alerts":[{"status":"firing","startsAt":"9999-12-31T23:59:59Z","labels":{"severity":"warning"}}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := newRig(t, DefaultConfig(), WithRoutes(4))
		h := alertHandler(t, r.Sampler, AlertConfig{Rules: append(DefaultAlertRules(), AlertRule{Rate: 0.7, RouteLabel: "route"})})
		code, _, answer := call(h, http.MethodPost, text)
		if code != http.StatusOK && code != http.StatusBadRequest && code != http.StatusRequestEntityTooLarge || !json.Valid([]byte(answer)) {
			t.Fatalf("%d %s", code, answer)
		}
		active := r.State().Alerts.Active
		if rate := r.Rate(); rate < 0.0499 || rate > 1 || code != http.StatusOK && (active > 0 || rate > 0.0501) {
			t.Fatalf("%d, rate %v, %d alerts", code, rate, active)
		}
		call(h, http.MethodPost, text)
		require.Equal(t, active, r.State().Alerts.Active, "alerts, repeated")
		r.now = r.now.Add(time.Hour)
		r.step(false)
		r.wantRate(0.05)
	})
}
