package retroextension

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/bearertokenauthextension"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	client "github.com/tare-trace/tare/agent/retro/coordinator"
	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T, f extension.Factory, section map[string]any) component.Config {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(section).Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestConfig(t *testing.T) {
	cfg := load(t, NewFactory(), map[string]any{"endpoint": "0.0.0.0:1", "traces_per_second": 7, "auth": map[string]any{"authenticator": "basicauth"}}).(*Config)
	if err := confmap.Validate(cfg); err != nil || cfg.TracesPerSecond != 7 || cfg.ServerConfig.NetAddr.Endpoint != "0.0.0.0:1" {
		t.Errorf("%+v, %v", cfg, err)
	}
	if err := componenttest.CheckConfigStruct(cfg); err != nil {
		t.Error(err)
	}
	e, err := NewFactory().Create(t.Context(), extensiontest.NewNopSettings(Type), cfg)
	if ids := e.(extensioncapabilities.Dependent).Dependencies(); err != nil || len(ids) != 1 || ids[0].String() != "basicauth" {
		t.Errorf("%v, %v", ids, err)
	}
	for key, value := range map[string]any{"traces_per_second": 0, "read_timeout": "1s", "write_timeout": "1s"} {
		if err := confmap.Validate(load(t, NewFactory(), map[string]any{key: value})); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := confmap.NewFromStringMap(map[string]any{"tsl": map[string]any{"a": "b"}}).Unmarshal(defaultConfig()); err == nil {
		t.Error("an unknown key is accepted")
	}
}

type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

// served is an extension that runs.
type served struct {
	Extension
	url       string
	log       *observer.ObservedLogs
	telemetry *componenttest.Telemetry
}

func serve(t *testing.T, h host, section map[string]any) served {
	t.Helper()
	if section["endpoint"] == nil {
		section["endpoint"] = "127.0.0.1:0"
	}
	core, logs := observer.New(zap.InfoLevel)
	set, telemetry := extensiontest.NewNopSettings(Type), componenttest.NewTelemetry()
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	set.Logger = zap.New(core)
	e, err := NewFactory().Create(t.Context(), set, load(t, NewFactory(), section))
	if err != nil {
		t.Fatal(err)
	}
	s := served{Extension: e.(Extension), log: logs, telemetry: telemetry}
	testkit.Until(t, time.Minute, "the address is free", func() bool {
		err = s.Start(t.Context(), h)
		return err == nil || !strings.Contains(err.Error(), "in use")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop(t)
		if err := telemetry.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.url = "http://" + s.Addr().String()
	return s
}

func (s served) stop(t *testing.T) {
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// counted is the sum of a metric's points.
func (s served) counted(t *testing.T, name string) (sum int64) {
	t.Helper()
	m, err := s.telemetry.GetMetric(name)
	if err != nil {
		t.Fatal(err)
	}
	var points []metricdata.DataPoint[int64]
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		points = data.DataPoints
	case metricdata.Gauge[int64]:
		points = data.DataPoints
	}
	for _, p := range points {
		sum += p.Value
	}
	return sum
}

// post returns the status and the text of the answer.
func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// listening is an agent's client, with what it has heard.
type listening struct {
	*client.Client
	log   testkit.Log
	mu    sync.Mutex
	heard []keep.Keep
}

func listen(t *testing.T, o client.Options) *listening {
	t.Helper()
	a := &listening{}
	o.Instance, o.Log = t.Name(), slog.New(slog.NewTextHandler(&a.log, nil))
	o.Kept = func(keeps []keep.Keep) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.heard = append(a.heard, keeps...)
	}
	var err error
	if a.Client, err = client.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return a
}

func (a *listening) has(id span.TraceID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.heard {
		if k.TraceID == id {
			return true
		}
	}
	return false
}

func everybodyHas(t *testing.T, id span.TraceID, agents ...*listening) {
	t.Helper()
	testkit.Until(t, time.Minute, "the keep has reached the others", func() bool {
		for _, a := range agents {
			if !a.has(id) {
				return false
			}
		}
		return true
	})
}

func TestKeepsReachOthers(t *testing.T) {
	s, second := serve(t, host{}, map[string]any{}), serve(t, host{}, map[string]any{})
	o := client.Options{Endpoints: []string{s.url, second.url}}
	a, b, c := listen(t, o), listen(t, o), listen(t, o)
	a.Keep(keep.Keep{TraceID: trace(1), Service: "shop", Reason: keep.NoResponse, Time: time.Now()})
	everybodyHas(t, trace(1), b, c)
	b.mu.Lock()
	k := b.heard[0]
	b.mu.Unlock()
	if k != (keep.Keep{TraceID: trace(1), Service: "shop", Reason: keep.NoResponse}) {
		t.Errorf("b heard %+v", k)
	}
	if status, said := post(t, s.url+keep.KeepPath, `{"trace_id": "`+trace(2).String()+`", "service": "alert"}`); status != 202 || !strings.Contains(said, `"limited":0`) {
		t.Errorf("%d %s", status, said)
	}
	everybodyHas(t, trace(2), a, b, c)
	if a.has(trace(1)) {
		t.Error("a heard its own keep")
	}
	// Who comes later hears what came before.
	everybodyHas(t, trace(1), listen(t, o))
	testkit.Until(t, time.Minute, "all four are known", func() bool { return s.counted(t, "tare_retro_agents") == 4 })
	testkit.Until(t, time.Minute, "both keeps are counted", func() bool { return s.counted(t, "tare_retro_keeps") == 2 })
}

// A coordinator that stops answers those that wait; after its restart agents begin anew, and what was queued arrives.
func TestRestart(t *testing.T) {
	s := serve(t, host{}, map[string]any{})
	o := client.Options{Endpoints: []string{s.url}}
	a, b := listen(t, o), listen(t, o)
	for n := range 20 {
		a.Keep(keep.Keep{TraceID: trace(n), Reason: keep.Slow})
	}
	everybodyHas(t, trace(19), b)
	s.stop(t)
	if n := len(s.log.FilterMessage("requests of agents were cut off").All()); n > 0 {
		t.Error("waiting requests were not answered")
	}
	testkit.Until(t, time.Minute, "they notice", func() bool { return a.Stats().Reachable+b.Stats().Reachable == 0 })
	b.Keep(keep.Keep{TraceID: trace(100), Reason: keep.Slow})
	again := serve(t, host{}, map[string]any{"endpoint": strings.TrimPrefix(s.url, "http://")})
	everybodyHas(t, trace(100), a)
	testkit.Until(t, time.Minute, "they are connected", func() bool { return a.Stats().Reachable+b.Stats().Reachable == 2 })
	if n := again.counted(t, "tare_retro_keeps"); n != 1 {
		t.Errorf("%d keeps were sent again", n-1)
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t, host{}, map[string]any{})
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
		want       string
	}{
		"no JSON":        {keep.Path, "{", nil, 400, "not a request in JSON"},
		"no instance":    {keep.Path, "{}", nil, 400, "instance"},
		"a form":         {keep.Path, "{}", []string{"Content-Type", "text/plain"}, 415, "application/json"},
		"too long":       {keep.Path, strings.Repeat(" ", keep.MaxBody+1), nil, 413, "64 KiB"},
		"no trace":       {keep.KeepPath, "{}", nil, 400, "trace_id"},
		"compressed":     {keep.Path, "{}", []string{"Content-Encoding", "gzip"}, 400, "Content-Encoding"},
		"another path":   {"/v1/traces", "{}", nil, 404, ""},
		"a foreign page": {keep.KeepPath, "{}", []string{"Origin", "https://evil.example"}, 403, "another site"},
	} {
		if status, said := post(t, s.url+c.path, c.body, c.header...); status != c.status || !strings.Contains(said, c.want) {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
	if n := s.counted(t, "tare_retro_refused_requests"); n != 6 {
		t.Errorf("%d refusals are counted", n)
	}
}

func TestAuthentication(t *testing.T) {
	h := host{}
	f := bearertokenauthextension.NewFactory()
	auth, err := f.Create(t.Context(), extensiontest.NewNopSettings(f.Type()), load(t, f, map[string]any{"token": "t0ken"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.Start(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = auth.Shutdown(context.Background()) })
	h[component.MustNewID("bearertokenauth")] = auth
	s := serve(t, h, map[string]any{"auth": map[string]any{"authenticator": "bearertokenauth"}})
	known := client.Options{Endpoints: []string{s.url}, Headers: map[string]string{"Authorization": "Bearer t0ken"}}
	a, b, stranger := listen(t, known), listen(t, known), listen(t, client.Options{Endpoints: []string{s.url}})
	stranger.Keep(keep.Keep{TraceID: trace(1), Reason: keep.Error})
	testkit.Until(t, time.Minute, "the stranger is refused", func() bool { return strings.Contains(stranger.log.String(), "status 401") })
	a.Keep(keep.Keep{TraceID: trace(2), Reason: keep.Error})
	everybodyHas(t, trace(2), b)
	if stranger.Stats().Reachable != 0 || stranger.has(trace(2)) || b.has(trace(1)) {
		t.Errorf("%+v", stranger.Stats())
	}
}

// While one service floods, the keeps of another pass; what is dropped is counted and told.
func TestFlood(t *testing.T) {
	s := serve(t, host{}, map[string]any{"traces_per_second": 400})
	o := client.Options{Endpoints: []string{s.url}}
	flooding, other, all := listen(t, o), listen(t, o), listen(t, o)
	sent := 0
	testkit.Until(t, time.Minute, "some are dropped", func() bool {
		for range 1000 {
			flooding.Keep(keep.Keep{TraceID: trace(sent), Service: "flood", Reason: keep.Error})
			sent++
		}
		return flooding.Stats().Limited > 0
	})
	for n := range 5 {
		other.Keep(keep.Keep{TraceID: trace(1_000_000 + n), Service: "quiet", Reason: keep.Error})
	}
	for n := range 5 {
		everybodyHas(t, trace(1_000_000+n), all, flooding)
	}
	testkit.Until(t, time.Minute, "all are sent, or found no room", func() bool {
		now := flooding.Stats()
		return now.Sent+now.Dropped == uint64(sent)
	})
	limited := int64(flooding.Stats().Limited)
	if n := s.counted(t, "tare_retro_keeps_limited"); n != limited || limited >= int64(sent) || other.Stats().Limited != 0 {
		t.Errorf("%d keeps are counted as limited, %d told", n, limited)
	}
}
