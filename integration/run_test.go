package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// whole is a running `tare run`.
type whole struct {
	*testkit.Child
	store            string
	page, otlp, self string // addresses: of the page, of OTLP/HTTP, of the agent's metrics
	collector        daemon // with the collector's own metrics
}

// launchWhole starts `tare run` on addresses of its own; store "" is a new one.
func launchWhole(t *testing.T, store string, args ...string) *whole {
	t.Helper()
	if store == "" {
		store = filepath.Join(t.TempDir(), "store")
	}
	w := &whole{
		store: store,
		page:  loopback(testkit.FreePort(t)), otlp: loopback(testkit.FreePort(t)), self: loopback(testkit.FreePort(t)),
		collector: daemon{metrics: loopback(testkit.FreePort(t))},
	}
	config := filepath.Join(t.TempDir(), "collector.yaml")
	text := fmt.Sprintf("receivers: {otlp: {protocols: {grpc: {endpoint: '%s'}, http: {endpoint: '%s'}}}}\n", loopback(testkit.FreePort(t)), w.otlp)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{
		"run", "--store", store, "--page", w.page, "--listen", w.self,
		"--collector-listen", w.collector.metrics, "--collector-config", config, "--retro-listen", loopback(testkit.FreePort(t)),
	}, args...)
	w.Child = testkit.Spawn(t, "tare run", os.Interrupt, 30*time.Second, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TARE_INSTANCE=" + w.self}, append([]string{tare}, args...)...)
	w.collector.Child = w.Child
	return w
}

// runWhole is launchWhole, and waits until the page's address was printed.
func runWhole(t *testing.T, store string, args ...string) *whole {
	t.Helper()
	w := launchWhole(t, store, args...)
	w.announced(2 * time.Minute)
	return w
}

// announced waits until the page's address was printed.
func (w *whole) announced(within time.Duration) {
	w.T.Helper()
	w.Await(within, "the page is announced", func() bool { return strings.Contains(w.Log.String(), "page: http://"+w.page+"/") })
}

// ready is how often the collector has begun, with --verbose.
func (w *whole) ready() int { return strings.Count(w.Log.String(), "Everything is ready") }

// get reads the page's API; what is not there yet is false.
func (w *whole) get(path string, into any) bool {
	resp, err := noProxy.Get("http://" + w.page + path)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(into) == nil
}

// listed are the traces that a search finds, all pages of it.
type listed struct {
	TraceID string `json:"trace_id"`
	Service string
	Spans   int
	State   string
	Reason  string
}

func (w *whole) traces(query string) (all []listed) {
	for after := ""; ; {
		var page struct {
			Traces []listed
			Next   string
		}
		if !w.get("/api/v1/traces?limit=1000&"+query+"&after="+url.QueryEscape(after), &page) {
			return nil
		}
		all = append(all, page.Traces...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

func (w *whole) spans() (n int) {
	var stats struct{ Spans int }
	w.get("/api/v1/stats", &stats)
	return stats.Spans
}

// All in one process: a real chain under load, and a service with an SDK, on
// one page.
func TestRun(t *testing.T) {
	t.Parallel()
	need(t)
	const requests = 2000
	c := start(t, "nginx")
	w := runWhole(t, "", ports(c)...)
	send(t, load.Options{Addr: c.Entry, Connections: 16, Requests: requests, AppendPath: c.AppendPath})

	var complete []listed
	testkit.Until(t, 60*time.Second, "every request is a complete trace", func() bool {
		complete = w.traces("state=complete&service=proxy")
		return len(complete) >= requests
	})
	if len(complete) != requests {
		t.Errorf("%d traces of %d requests", len(complete), requests)
	}
	if broken := w.traces("state=incomplete"); len(broken) > 0 {
		t.Errorf("%d traces are incomplete, such as %+v", len(broken), broken[0])
	}
	var trace struct {
		State    string
		Services []struct{ Name string }
		Spans    []struct {
			Name, Kind string
			Depth      int
		}
	}
	if !w.get("/api/v1/traces/"+complete[0].TraceID, &trace) || trace.State != "complete" ||
		len(trace.Services) != 2 || len(trace.Spans) != 3 {
		t.Errorf("one of them: %+v", trace)
	}
	for depth, s := range trace.Spans {
		if want := []string{"server", "client", "server"}[depth]; s.Depth != depth || s.Kind != want || s.Name != "GET /n/{id}" {
			t.Errorf("span %d: %+v, want a %s span", depth, s, want)
		}
	}
	var health struct {
		Sources []struct {
			URL   string
			Up    bool
			Error string
			Agent *struct {
				Roots map[string]float64
			}
			Collector *struct {
				AcceptedSpans float64 `json:"accepted_spans"`
			}
		}
	}
	if !w.get("/api/v1/health", &health) || len(health.Sources) != 2 || !health.Sources[0].Up || !health.Sources[1].Up ||
		health.Sources[0].Agent == nil || health.Sources[0].Agent.Roots["sampled"] != requests ||
		health.Sources[1].Collector == nil || health.Sources[1].Collector.AcceptedSpans != 3*requests {
		t.Errorf("health %+v", health)
	}

	sdk(t, w.otlp)
	testkit.Until(t, 30*time.Second, "the trace of the SDK is there", func() bool { return len(w.traces("service=with-sdk")) == 1 })
	w.Stop()

	// The same store, and nothing traced: what was stored is there.
	before := 3*requests + 1
	again := runWhole(t, w.store)
	if n := again.spans(); n != before {
		t.Errorf("%d spans after a restart, %d before", n, before)
	}
	if !strings.Contains(again.Log.String(), "--port") {
		t.Errorf("it does not say how services are traced: %s", again.Log)
	}
}

// sdk sends one span as an instrumented service would.
func sdk(t *testing.T, address string) {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(address), otlptracehttp.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(sdkresource.NewSchemaless(attribute.String("service.name", "with-sdk"))))
	_, span := p.Tracer("test").Start(t.Context(), "work")
	span.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Killed under load: no request fails, the hooks are gone, and everything that
// the page had shown is there again.
func TestRunKilledUnderLoad(t *testing.T) {
	t.Parallel()
	need(t)
	c := start(t, "nginx")
	w := runWhole(t, "", append(ports(c), ratio("0.5")...)...)
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 8, Rate: 1000, AppendPath: c.AppendPath})
	l.more(1000)
	testkit.Until(t, 30*time.Second, "something is stored", func() bool { return w.spans() > 300 })
	a := &tracer{Child: w.Child}
	ids, links := a.programs()
	if len(ids) < 5 || links < 5 {
		t.Fatalf("it holds %d programs and %d links", len(ids), links)
	}
	stored := w.spans()
	found := w.traces("state=complete")
	if len(found) == 0 {
		t.Fatal("no trace is complete")
	}
	a.Kill()
	testkit.Until(t, 2*time.Second, "the programs are gone", func() bool { return len(loaded(t, ids)) == 0 })
	l.more(1000)
	l.end()

	again := runWhole(t, w.store)
	if n := again.spans(); n < stored {
		t.Errorf("%d spans after kill -9, %d were acknowledged", n, stored)
	}
	there := map[string]int{}
	for _, tr := range again.traces("") {
		there[tr.TraceID] = tr.Spans
	}
	for _, tr := range found {
		if there[tr.TraceID] < tr.Spans {
			t.Fatalf("trace %s had %d spans before kill -9 and has %d", tr.TraceID, tr.Spans, there[tr.TraceID])
		}
	}
}

// After a mistake in its file, SIGHUP leaves the agent with what was read last, not with what it began with.
func TestRunKeepsTheLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	need(t)
	c, file := start(t, "nginx"), filepath.Join(t.TempDir(), "tare.yaml")
	text := func(rate string) string {
		text := "sampler_arg: " + rate + "\nservices:\n"
		for _, svc := range c.Services {
			text += fmt.Sprintf("  - {name: %s, ports: [%d]}\n", svc.Name, svc.Port)
		}
		return text
	}
	replace(t, file, text("1"))
	w := runWhole(t, "", "--verbose", "--config", file)
	a := &tracer{Child: w.Child, listen: w.self}
	w.Await(deadline, "the agent traces", func() bool { return strings.Count(w.Log.String(), "msg=tracing") == 1 })
	replace(t, file, text("0"))
	w.Await(deadline, "a rate of 0 is taken over", func() bool { return a.reloads() == 1 })
	replace(t, file, text("0.1.1"))
	w.Await(deadline, "the file is refused", func() bool { return strings.Contains(w.Log.String(), "reload refused") })
	if err := w.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.Await(2*time.Minute, "the agent's file was read for the collector, too", func() bool { return strings.Contains(w.Log.String(), "the one before stays") })
	w.Await(2*time.Minute, "the collector began anew", func() bool { return w.ready() == 2 })
	before := a.mustMetrics()
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: 200, AppendPath: c.AppendPath})
	if m := a.mustMetrics(); m.sampled() > before.sampled() || m.unsampled() < before.unsampled()+200 {
		t.Errorf("of 200 requests at a rate of 0, %d were sampled and %d not", m.sampled()-before.sampled(), m.unsampled()-before.unsampled())
	}
}

// SIGHUP under load: the agent goes on while the collector begins anew, and no span is lost.
func TestRunReloadedUnderLoad(t *testing.T) {
	t.Parallel()
	need(t)
	c := start(t, "nginx")
	w := runWhole(t, "", append(ports(c), "--verbose")...)
	a := &tracer{Child: w.Child, listen: w.self}
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 8, Rate: 200, AppendPath: c.AppendPath})
	l.more(200)
	for n := 1; n <= 2; n++ {
		reloads := a.reloads()
		if err := w.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		w.Await(2*time.Minute, "the agent reads its configuration again", func() bool { return a.reloads() > reloads })
		w.Await(2*time.Minute, "the collector began anew", func() bool { return w.ready() > n })
		l.more(200)
	}
	requests := int(l.end().OK)
	w.Await(2*time.Minute, "the spans are stored", func() bool { return w.spans() >= 3*requests })
	if n := w.spans(); n != 3*requests {
		t.Errorf("%d spans of %d requests", n, requests)
	}
	if m := a.mustMetrics(); m.lostAll() > 0 {
		t.Errorf("the agent has lost %d", m.lostAll())
	}
	if n := strings.Count(w.Log.String(), "msg=tracing"); n != 1 {
		t.Errorf("the agent began %d times", n)
	}
}

// Without privileges, OTLP is taken all the same; what cannot be is said.
func TestRunSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes: not with -short")
	}
	w := runWhole(t, "")
	sdk(t, w.otlp)
	testkit.Until(t, 30*time.Second, "the trace of the SDK is there", func() bool { return len(w.traces("service=with-sdk")) == 1 })

	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"nothing at all":  {[]string{"--otlp=false"}, []string{"no service selected", "--port 8080"}},
		"store in use":    {[]string{"--store", w.store}, []string{"in use", w.store}},
		"page taken":      {[]string{"--page", w.page, "--otlp"}, []string{"address already in use", "--page"}},
		"page for all":    {[]string{"--page", "0.0.0.0:0"}, []string{"auth"}},
		"wrong agent key": {[]string{"--port", "0"}, []string{"--port", "65535"}},
		"no such file":    {[]string{"--collector-config", "/nonexistent.yaml"}, []string{"/nonexistent.yaml"}},
		"retention":       {[]string{"--retention", "0s"}, []string{"--retention"}},
		"size":            {[]string{"--max-size", "much"}, []string{"size"}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := launchWhole(t, "", tt.args...)
			select {
			case <-bad.Done:
			case <-time.After(testkit.Patient(30 * time.Second)):
				t.Fatal("it runs")
			}
			if bad.Cmd.ProcessState.Success() {
				t.Error("exit status 0")
			}
			for _, want := range tt.want {
				if !strings.Contains(bad.Log.String(), want) {
					t.Errorf("no %q in\n%s", want, bad.Log)
				}
			}
		})
	}
}
