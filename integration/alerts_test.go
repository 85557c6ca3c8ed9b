package integration

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/workloads"
)

// A real Alertmanager switches the adaptive sampler of a service: an alert that fires raises its rate to
// that of the alert's severity, one that is resolved gives it back, and a wrong token changes nothing.
func TestAlertmanagerSwitchesTheSampler(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts real services: not with -short")
	}
	if program("prometheus-alertmanager") == "" {
		refuse(t, "needs prometheus-alertmanager (Debian's package of that name)")
	}
	const token = "of the test"
	c, err := workloads.Start(t.Context(), "thesis", workloads.Options{Bin: bin, Env: map[string]string{
		"TRACING_ENABLED": "true", "SAMPLING_STRATEGY": "adaptive", "ADAPTIVE_BASE_RATE": "0.05", "ALERT_TOKEN": token,
		"COLLECTOR_ENDPOINT": "http://" + loopback(testkit.FreePort(t)), // nobody: no request is made
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop the service: %v", err)
		}
	})
	right, wrong := startAlertmanager(t, c.Entry, token), startAlertmanager(t, c.Entry, "another")

	since := time.Now()
	wrong.send(since, nil, "alertname", "Forged", "severity", "critical")
	untilSampler(t, c.Entry, "the request with the wrong token is refused", func(s samplerState) bool { return s.Alerts.Refused > 0 })
	if s := askSampler(t, c.Entry); s.Rate > 0.051 || len(s.Incident.Active) > 0 {
		t.Errorf("an alert with a wrong token raised the rate: %+v", s)
	}

	right.send(since, nil, "alertname", "Slow", "severity", "warning")
	untilSampler(t, c.Entry, "a warning raises the rate to 0.25", func(s samplerState) bool { return s.Rate > 0.249 && s.Rate < 0.251 })
	right.send(since, nil, "alertname", "Failing", "severity", "critical")
	untilSampler(t, c.Entry, "a critical alert raises it to 1", func(s samplerState) bool { return s.Rate == 1 && len(s.Incident.Active) == 2 })
	for _, a := range askSampler(t, c.Entry).Incident.Active {
		if !strings.HasPrefix(a.Source, "alertmanager ") || a.Reason != "Slow (warning)" && a.Reason != "Failing (critical)" {
			t.Errorf("what raises the rate: %+v", a)
		}
	}
	now := time.Now()
	right.send(since, &now, "alertname", "Failing", "severity", "critical")
	untilSampler(t, c.Entry, "the critical one is resolved", func(s samplerState) bool { return s.Rate > 0.249 && s.Rate < 0.251 })
	right.send(since, &now, "alertname", "Slow", "severity", "warning")
	untilSampler(t, c.Entry, "both are resolved", func(s samplerState) bool { return s.Rate < 0.051 && s.Alerts.Resolved == 2 })
}

// samplerState is what the test reads of the service's /adaptive-metrics.
type samplerState struct {
	Rate     float64
	Incident struct {
		Active []struct{ Source, Reason string }
	}
	Alerts struct{ Refused, Resolved int }
}

func askSampler(t *testing.T, address string) (s samplerState) {
	t.Helper()
	resp, err := noProxy.Get("http://" + address + "/adaptive-metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func untilSampler(t *testing.T, address, what string, holds func(samplerState) bool) {
	t.Helper()
	var last samplerState
	if !testkit.ComesTrue(2*deadline, func() bool { last = askSampler(t, address); return holds(last) }) {
		t.Fatalf("not seen: %s; the sampler says %+v", what, last)
	}
}

type alertmanager struct {
	t   *testing.T
	url string
}

// startAlertmanager starts one that tells the service of each alert at once.
func startAlertmanager(t *testing.T, service, token string) alertmanager {
	t.Helper()
	s := newStack(t)
	config := s.file("alertmanager.yml", `route:
  receiver: sampler
  group_by: ["..."]
  group_wait: 10ms
  group_interval: 100ms
receivers:
  - name: sampler
    webhook_configs:
      - url: http://`+service+`/adaptive-alerts
        http_config: {authorization: {type: Bearer, credentials: `+token+`}}
`)
	address := loopback(testkit.FreePort(t))
	s.ready(s.service("alertmanager", "", nil, "prometheus-alertmanager", "--config.file="+config, "--web.listen-address="+address,
		"--storage.path="+s.g.Dir, "--cluster.listen-address=", "--log.level=warn"), address)
	return alertmanager{t, "http://" + address}
}

// send tells Alertmanager of an alert, as Prometheus does; ended is nil while it fires.
func (a alertmanager) send(began time.Time, ended *time.Time, labels ...string) {
	a.t.Helper()
	m := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	alert := map[string]any{"labels": m, "startsAt": began}
	if ended != nil {
		alert["endsAt"] = ended
	}
	text, err := json.Marshal([]any{alert})
	if err != nil {
		a.t.Fatal(err)
	}
	resp, err := noProxy.Post(a.url+"/api/v2/alerts", "application/json", bytes.NewReader(text))
	if err != nil {
		a.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		a.t.Fatalf("alertmanager answers %s to an alert", resp.Status)
	}
}
