package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/workloads"
)

// What deploy/ holds, as it is shipped.
const (
	scrapeConfig = "../deploy/prometheus/prometheus.yml"
	rules        = "../deploy/prometheus/tare.rules.yml"
	rulesTest    = "../deploy/prometheus/tare.rules.test.yml"
	dashboards   = "../deploy/grafana/dashboards/*.json"
)

// dashboard is as much of Grafana's format as the tests look at.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Type string
	Query      json.RawMessage // a string, or an object with a string
	Multi      bool
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ RefID, Expr, LegendFormat, Format string }
}

func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(dashboards)
	if err != nil || len(files) < 3 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	all := map[string]dashboard{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[filepath.Base(f)] = d
	}
	return all
}

// Grafana imports a dashboard without a word where a panel lacks something;
// people then wonder what they see.
func TestDashboardsAreWhole(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for file, d := range readDashboards(t) {
		if d.UID == "" || uids[d.UID] || d.Title == "" || d.SchemaVersion < 36 {
			t.Errorf("%s: uid %q, title %q, schemaVersion %d", file, d.UID, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = true
		if v := d.Templating.List; len(v) == 0 || v[0].Name != "datasource" || v[0].Type != "datasource" {
			t.Errorf("%s: the first variable does not choose the data source", file)
		}
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			what := fmt.Sprintf("%s: panel %d (%s)", file, p.ID, p.Title)
			if p.Title == "" || p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: no title, or no id of its own", what)
			}
			ids[p.ID] = true
			g := p.GridPos
			if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
				t.Errorf("%s: place %+v is outside the 24 columns", what, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other, taken := cells[[2]int{x, y}]; taken {
						t.Fatalf("%s lies on %q", what, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Datasource.UID != "${datasource}" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: data source %q, unit %q, %d targets", what, p.Datasource.UID, p.FieldConfig.Defaults.Unit, len(p.Targets))
			}
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if q.RefID == "" || refs[q.RefID] || q.Expr == "" || q.LegendFormat == "" && q.Format != "table" {
					t.Errorf("%s: target %+v", what, q)
				}
				refs[q.RefID] = true
			}
		}
	}
}

func TestPrometheusFiles(t *testing.T) {
	t.Parallel()
	if program("promtool") == "" {
		refuse(t, "needs promtool (Debian's prometheus)")
	}
	sh(t, "promtool", "check", "config", scrapeConfig) // its rules, too
	sh(t, "promtool", "test", "rules", rulesTest)
	// Every alert is in the unit tests.
	names := regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(slurp(t, rules), -1)
	tests := slurp(t, rulesTest)
	for _, n := range names {
		if !regexp.MustCompile(`(?s)alertname: ` + n[1] + `\b[^\n]*\n[^-]*exp_alerts:\n`).MatchString(tests) {
			t.Errorf("no unit test makes %s fire", n[1])
		}
	}
	if len(names) < 10 {
		t.Errorf("only %d alerts were found in %s", len(names), rules)
	}
}

func slurp(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// smallExperiment has more runs than the test lets it make.
const smallExperiment = `name: small
title: for the dashboards
workloads:
  - {name: api-basic, kind: thesis, path: /api/basic, spans: 1, read_back: /config}
tracers:
  - {name: none, driver: none, env: {TRACING_ENABLED: "false"}}
  - name: head
    driver: env
    rates: [0.5]
    env: {TRACING_ENABLED: "true", SAMPLING_STRATEGY: traceidratiobased, SAMPLING_RATE: "{rate}", COLLECTOR_ENDPOINT: "{otlp}"}
loads:
  - {name: 100rps, rate: 100, connections: 4}
profiles:
  endless: {rounds: 1000, warmup: 100ms, window: 500ms}
metrics: [cpu_service_us]
`

// A real Prometheus scrapes everything that serves /metrics, with the shipped
// configuration and rules, and every expression of every dashboard finds
// numbers.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	need(t, "prometheus", "promtool", "nginx", "redis-server", "ip")
	s := newSink(t)
	agent := tracedChain(t, s)
	targets := map[string]string{ // by address in prometheus.yml
		"localhost:9464": agent.listen,
		"localhost:9465": experimentUnderWay(t),
		"localhost:8080": instrumented(t, "thesis", map[string]string{
			"TRACING_ENABLED": "true", "COLLECTOR_ENDPOINT": s.url, "INJECT_ERRORS": "0.1", "OTEL_BSP_SCHEDULE_DELAY": "200",
			"LONG_RUNNING_MIN": "50ms", "LONG_RUNNING_MAX": "60ms", "CPU_PRIMES": "1000",
		}, "/api/basic", "/api/large-payload?size=1000", "/api/deep-spans", "/api/cpu-intensive", "/api/long-running"),
		"localhost:8081": instrumented(t, "counter", map[string]string{
			"ENABLE_OTEL": "yes", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": s.url + "/v1/traces", "OTEL_BSP_SCHEDULE_DELAY": "200",
		}, "/"),
	}
	p := startPrometheus(t, targets)

	testkit.Until(t, 2*deadline, "all targets are up", func() bool {
		up, err := p.query("sum(up)")
		return err == nil && len(up) == 1 && up[0] == float64(len(targets))
	})
	for file, d := range readDashboards(t) {
		t.Run(file, func(t *testing.T) {
			p.wantData(t, d)
		})
	}
	t.Run("rules", func(t *testing.T) { p.wantRules(t) })
	for _, address := range targets { // now that all metrics are there
		checkMetrics(t, address)
	}
	agent.Stop()
	testkit.Until(t, deadline, "an alert of the agent that is gone", func() bool {
		alerts, err := p.query(`ALERTS{alertname="TareAgentDown", instance="` + agent.listen + `"}`)
		return err == nil && len(alerts) == 1
	})
}

// tracedChain lets an agent trace a chain under a little load.
func tracedChain(t *testing.T, s *sink) *tracer {
	t.Helper()
	c := start(t, "nginx")
	a := trace(t, s, nil, append(ports(c), append(ratio("0.5"), "--bpf-stats", "--metrics", "requests")...)...)
	keepSending(t, load.Options{Addr: c.Entry, Connections: 4, Rate: 100, AppendPath: c.AppendPath})
	return a
}

// instrumented starts one of the laboratory's services under a little load on
// the paths, one after the other.
func instrumented(t *testing.T, name string, env map[string]string, paths ...string) string {
	t.Helper()
	c, err := workloads.Start(t.Context(), name, workloads.Options{Env: env, Bin: bin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop %s: %v", name, err)
		}
	})
	keepSending(t, load.Options{Addr: c.Entry, Connections: 8, Rate: 50, AppendPath: func(dst []byte, n uint64) []byte {
		return append(dst, paths[n%uint64(len(paths))]...)
	}})
	return c.Entry
}

// experimentUnderWay starts an experiment that goes on until the test ends, and
// returns the address of its metrics.
func experimentUnderWay(t *testing.T) string {
	t.Helper()
	dir, address, log := t.TempDir(), loopback(testkit.FreePort(t)), &testkit.Log{}
	file := filepath.Join(dir, "small.yaml")
	if err := os.WriteFile(file, []byte(smallExperiment), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), tare, "bench", "run", file, "--profile", "endless",
		"--out", filepath.Join(dir, "out"), "--no-install", "--listen", address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		var interrupted *exec.ExitError
		if err := <-ended; !errors.As(err, &interrupted) || interrupted.ExitCode() != 1 || !strings.Contains(log.String(), "--resume") {
			t.Errorf("tare bench ended with %v, not interrupted:\n%s", err, log)
		}
	})
	testkit.Until(t, 2*deadline, "tare bench serves /metrics", func() bool {
		if len(ended) > 0 {
			t.Fatalf("tare bench ended:\n%s", log)
		}
		resp, err := noProxy.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return address
}

// checkMetrics lets promtool judge names, units and help.
func checkMetrics(t *testing.T, address string) {
	t.Helper()
	resp, err := noProxy.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || len(text) == 0 {
		t.Fatalf("%s: %s, %d bytes, %v", address, resp.Status, len(text), err)
	}
	cmd := exec.CommandContext(t.Context(), program("promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(string(text))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics, of %s: %v\n%s", address, err, out)
	}
}

// prom is a running Prometheus.
type prom struct{ url string }

// startPrometheus starts one with the shipped files, but for addresses and
// intervals.
func startPrometheus(t *testing.T, targets map[string]string) prom {
	t.Helper()
	config := slurp(t, scrapeConfig)
	for shipped, real := range targets {
		if strings.Count(config, strconv.Quote(shipped)) != 1 {
			t.Fatalf("%s is not once in %s", shipped, scrapeConfig)
		}
		config = strings.Replace(config, shipped, real, 1)
	}
	config = regexp.MustCompile(`(?m)^( *(scrape|evaluation)_interval:) \w+$`).ReplaceAllString(config, "$1 1s")
	s := newStack(t)
	s.file(filepath.Base(rules), slurp(t, rules))
	file := s.file("prometheus.yml", config)
	address := loopback(testkit.FreePort(t))
	s.ready(s.service("prometheus", "", nil, "prometheus", "--config.file="+file, "--web.listen-address="+address,
		"--storage.tsdb.path="+filepath.Join(s.g.Dir, "data"), "--log.level=warn"), address)
	return prom{"http://" + address}
}

// get asks the HTTP API; data is decoded into the value.
func (p prom) get(path string, form url.Values, into any) error {
	resp, err := noProxy.Get(p.url + path + "?" + form.Encode())
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}

// query evaluates an expression now; what is no number (0/0) is left out.
func (p prom) query(expr string) (values []float64, err error) {
	var result struct{ Result []struct{ Value [2]any } }
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &result); err != nil {
		return nil, err
	}
	for _, r := range result.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	return values, nil
}

var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// choose gives every variable of a dashboard the values that Grafana finds for
// it: all of them, or the first.
func (p prom) choose(t *testing.T, d dashboard) *strings.Replacer {
	t.Helper()
	// Grafana's own: at least four scrapes, and what the page shows.
	known := []string{"$__rate_interval", "10s", "$__range", "1m"}
	for _, v := range d.Templating.List {
		if v.Type == "datasource" {
			continue
		}
		var query struct{ Query string }
		if err := json.Unmarshal(v.Query, &query); err != nil {
			t.Fatalf("variable %s: %v", v.Name, err)
		}
		m := labelValues.FindStringSubmatch(strings.NewReplacer(known...).Replace(query.Query))
		if m == nil {
			t.Fatalf("variable %s is no label_values(selector, label): %s", v.Name, query.Query)
		}
		var found []string
		testkit.Until(t, 2*deadline, "variable "+v.Name+" has values: "+m[0], func() bool {
			err := p.get("/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {m[1]}}, &found)
			if err != nil {
				t.Fatalf("%s: %v", m[0], err)
			}
			return len(found) > 0
		})
		value := found[0]
		if v.Multi {
			value = "(" + strings.Join(found, "|") + ")"
		}
		known = append(known, "$"+v.Name, value)
	}
	return strings.NewReplacer(known...)
}

// wantData evaluates every expression of a dashboard.
func (p prom) wantData(t *testing.T, d dashboard) {
	t.Helper()
	variables, wait := p.choose(t, d), deadline
	for _, panel := range d.Panels {
		for _, q := range panel.Targets {
			expr := variables.Replace(q.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: an unknown variable: %s", panel.Title, expr)
				continue
			}
			var values []float64
			testkit.ComesTrue(wait, func() bool {
				var err error
				if values, err = p.query(expr); err != nil {
					t.Errorf("%s: %s: %v", panel.Title, expr, err)
				}
				return err != nil || len(values) > 0
			})
			if len(values) == 0 {
				t.Errorf("%s has no data: %s", panel.Title, expr)
				wait = time.Second // the rest has had its time
			}
		}
	}
}

// rule is one that Prometheus has loaded.
type rule struct{ Name, Type, Health, LastError, State string }

// rules returns them when all were evaluated.
func (p prom) rules(t *testing.T) (loaded []rule) {
	t.Helper()
	testkit.Until(t, deadline, "all rules are evaluated", func() bool {
		var all struct{ Groups []struct{ Rules []rule } }
		if err := p.get("/api/v1/rules", nil, &all); err != nil {
			t.Fatal(err)
		}
		loaded = nil
		for _, g := range all.Groups {
			loaded = append(loaded, g.Rules...)
		}
		return !slices.ContainsFunc(loaded, func(r rule) bool { return r.Health == "unknown" })
	})
	return loaded
}

// wantRules looks at the rules: they evaluate, the recorded series have
// values, and of a system that is well no alert speaks.
func (p prom) wantRules(t *testing.T) {
	t.Helper()
	alerts := 0
	for _, r := range p.rules(t) {
		switch {
		case r.Health != "ok":
			t.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError)
		case r.Type == "recording":
			testkit.Until(t, deadline, "a value of "+r.Name, func() bool {
				v, err := p.query(r.Name)
				return err == nil && len(v) > 0
			})
		default:
			alerts++
			if r.State != "inactive" {
				t.Errorf("alert %s is %s, and nothing is wrong", r.Name, r.State)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("%d alerts are loaded", alerts)
	}
}
