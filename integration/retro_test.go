package integration

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// retroArgs are flags of an agent that samples nothing at once.
func retroArgs(more ...string) []string {
	return append([]string{"--sampler", "always_off", "--retro", "16MiB"}, more...)
}

// failsAt is an http block that answers every hundredth request with status 500.
func failsAt(listen string) string {
	return fmt.Sprintf(`server { listen %s backlog=8192; location ~ "^/n/[0-9]*99$" { return 500; } location / { return 200 "hello world!\n"; } }`, listen)
}

// hides is an http block that passes everything on, and answers 200 where that failed.
func hides(listen, upstream string) string {
	return fmt.Sprintf(`
    upstream next { server %s; keepalive 64; }
    server {
        listen %s backlog=8192;
        location / {
            proxy_pass http://next;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_intercept_errors on;
            error_page 500 =200 @fine;
        }
        location @fine { return 200 "all is well\n"; }
    }`, upstream, listen)
}

// drives sends requests, of which some may fail.
func drives(t *testing.T, o load.Options) load.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(time.Minute))
	defer cancel()
	o.Timeout, o.AppendPath = testkit.Patient(time.Minute), numbered
	r, err := load.Run(ctx, o)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return r
}

// keptTraces are the spans of each trace.
func keptTraces(spans []span.Span) map[span.TraceID][]span.Span {
	traces := map[span.TraceID][]span.Span{}
	for _, s := range spans {
		traces[s.TraceID] = append(traces[s.TraceID], s)
	}
	return traces
}

// wantKept requires that the traces of these paths were kept, and those of no others: each with so many spans, one root, all
// others below spans of the trace, and the reason on its root.
func wantKept(t *testing.T, spans []span.Span, reason string, size int, paths map[string]bool) {
	t.Helper()
	left := maps.Clone(paths)
	for id, of := range keptTraces(spans) {
		ids, path, roots := map[span.ID]bool{}, "", 0
		for i := range of {
			ids[of[i].ID] = true
		}
		for i := range of {
			s := &of[i]
			if kept, _ := s.Attr(semconv.Retro); kept.Num != 1 {
				t.Errorf("this span does not say that it was kept after the fact: %s", describe(s))
			}
			if s.TraceState != "" {
				t.Errorf("a span that is no sample has a tracestate %q", s.TraceState)
			}
			p, _ := s.Attr("url.path")
			if path != "" && p.Str != "" && p.Str != path {
				t.Errorf("trace %x has spans of %s and of %s", id, path, p.Str)
			}
			path = max(path, p.Str)
			if s.Parent.IsZero() {
				roots++
				if why, _ := s.Attr(semconv.RetroReason); why.Str != reason {
					t.Errorf("the root says %q, want %q: %s", why.Str, reason, describe(s))
				}
			} else if !ids[s.Parent] {
				t.Errorf("its parent is missing: %s", describe(s))
			}
		}
		switch _, wanted := left[path]; {
		case !paths[path]:
			t.Errorf("the trace of %s was kept, with %d spans, such as %s", path, len(of), describe(&of[0]))
		case !wanted:
			t.Errorf("%s has two traces", path)
		case len(of) != size || roots != 1:
			t.Errorf("the trace of %s has %d spans and %d roots, want %d and 1", path, len(of), roots, size)
		}
		delete(left, path)
	}
	if len(left) > 0 {
		t.Errorf("%d of %d traces were not kept, such as that of %s", len(left), len(paths), slices.Min(slices.Collect(maps.Keys(left))))
	}
}

// everyHundredth are the paths of requests from first on that failsAt lets fail.
func everyHundredth(first, requests uint64) map[string]bool {
	paths := map[string]bool{}
	for n := first; n < first+requests; n++ {
		if n%100 == 99 {
			paths[string(numbered(nil, n))] = true
		}
	}
	return paths
}

// Nothing is sampled, and the traces of failed requests are there, whole; of the others there is none. In each tier.
func TestRetroKeepsFailed(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	mountTracefs(t)
	for _, v := range []struct {
		name string
		env  []string
		args []string
	}{
		{"nginx", nil, nil},
		{"over the wire", nil, []string{overWire}},
		{"at system calls", []string{"TARE_TIER=syscall"}, nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			st, s := newStack(t), newSink(t)
			proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
			st.nginx("backend", "", failsAt(loopback(backend)), loopback(backend))
			st.nginx("proxy", "", proxyTo(loopback(proxy), loopback(backend)), loopback(proxy))
			a := trace(t, s, v.env, retroArgs(append(v.args, "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))...)...)
			requests := few(6000)
			drives(t, load.Options{Addr: loopback(proxy), Connections: 32, Requests: uint64(requests)})
			m := a.settle()
			wantKept(t, s.all(), "error", 3, everyHundredth(0, uint64(requests)))
			failed := requests / 100
			if kept := m.int(`tare_retro_traces_total{reason="error"}`); kept != failed || m.int(`tare_roots_total{sampled="retro"}`) != requests || m.lostAll() > 0 {
				t.Errorf("%d of %d failed traces count as kept:\n%v", kept, failed, m)
			}
		})
	}
}

// coordinates starts a collector with the extension tare_retro, and returns the flags of agents that use it.
func coordinates(t *testing.T) (*daemon, []string) {
	t.Helper()
	address := loopback(testkit.FreePort(t))
	d := collect(t, `
receivers: {otlp: {protocols: {http: {endpoint: `+loopback(testkit.FreePort(t))+`}}}}
exporters: {debug: {}}
extensions: {tare_retro: {endpoint: `+address+`}}
service:
  extensions: [tare_retro]
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
`)
	return d, []string{"--retro-endpoint", "http://" + address}
}

// awaitCoordinators waits until agents have reached theirs.
func awaitCoordinators(t *testing.T, agents ...*tracer) {
	t.Helper()
	testkit.Until(t, deadline, "the agents reach the coordinator", func() bool {
		return !slices.ContainsFunc(agents, func(a *tracer) bool {
			return a.mustMetrics()[`tare_retro_coordinators{state="reachable"}`] == 0
		})
	})
}

// On two hosts: a request fails in the second, the first answers that all is well, and the whole trace is kept, since the first is
// told. A host that hears of none keeps its own part.
func TestRetroTwoHosts(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	for _, v := range []struct {
		name string
		args []string
	}{{"tcp", nil}, {"ip", []string{tagIP}}} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			w := wireTo(t, h, ipv4, h.addressB(ipv4), hides, failsAt)
			coordinator, endpoint := coordinates(t)
			s := newSink(t)
			a, b := w.agents(t, s, retroArgs(slices.Concat(endpoint, v.args)...)...)
			awaitCoordinators(t, a, b)
			first := uint64(0)
			if v.args != nil { // a path is tried before it is used
				testkit.Until(t, deadline, "the way there and back is known to pass options on", func() bool {
					drives(t, load.Options{Addr: w.entry, Connections: 1, Requests: 20, First: first})
					first += 100
					return a.settle().paths("pass") == 1 && b.settle().paths("pass") == 1
				})
			}
			before := s.count()
			requests := uint64(few(3000))
			drives(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, First: first})
			a.settle()
			b.settle()
			wantKept(t, s.since(before), "error", 3, everyHundredth(first, requests))
			if n := coordinator.labelled("tare_retro_keeps", `outcome="passed"`); n < float64(requests/100) {
				t.Errorf("the coordinator has passed %v keeps on", n)
			}
		})
	}
}

// A request that takes longer than the delay and then fails is found again; so is one that is slow, or never answered.
func TestRetroLongRequests(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	st, s := newStack(t), newSink(t)
	proxy, front := testkit.FreePort(t), testkit.FreePort(t)
	const long = 3 * time.Second
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "1"):
			time.Sleep(long)
			w.WriteHeader(http.StatusBadGateway)
		case strings.HasSuffix(r.URL.Path, "2"):
			time.Sleep(long)
		case strings.HasSuffix(r.URL.Path, "3"):
			panic(http.ErrAbortHandler)
		}
	}))
	defer backend.Close()
	st.nginx("proxy", "", strings.Replace(proxyTo(loopback(proxy), backend.Listener.Addr().String()), "proxy_http_version", "proxy_next_upstream off; proxy_http_version", 1), loopback(proxy))
	st.nginx("front", "", proxyTo(loopback(front), loopback(proxy)), loopback(front))
	a := trace(t, s, nil, retroArgs("--retro-slow", "2s", "--port", "front="+itoa(front), "--port", "proxy="+itoa(proxy))...)
	want := map[string]string{"/n/1": "error", "/n/2": "slow", "/n/3": ""}
	var all []<-chan load.Result
	for n := range uint64(5) {
		done := make(chan load.Result, 1)
		go func() {
			done <- drives(t, load.Options{Addr: loopback(front), Connections: 1, Requests: 1, First: n})
		}()
		all = append(all, done)
	}
	for _, done := range all {
		<-done
	}
	a.settle()
	for id, of := range keptTraces(s.all()) {
		path, _ := of[0].Attr("url.path")
		reason, wanted := want[path.Str]
		if !wanted || len(of) != 4 {
			t.Errorf("trace %x of %s has %d spans", id, path.Str, len(of))
		}
		for i := range of {
			if why, _ := of[i].Attr(semconv.RetroReason); of[i].Parent.IsZero() && reason != "" && why.Str != reason {
				t.Errorf("the reason is %q, want %q: %s", why.Str, reason, describe(&of[i]))
			}
		}
		delete(want, path.Str)
	}
	if len(want) > 0 {
		t.Errorf("not kept: %v\n%v", want, a.mustMetrics())
	}
}

// A trace that somebody outside names is kept: of a request that brought its own id.
func TestRetroKeepsNamed(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	st, s := newStack(t), newSink(t)
	proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
	st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
	st.nginx("proxy", "", proxyTo(loopback(proxy), loopback(backend)), loopback(proxy))
	a := trace(t, s, nil, retroArgs("--sampler", "parentbased_always_off", "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))...)
	const named = "0af7651916cd43dd8448eb211c80319c"
	send(t, load.Options{Addr: loopback(proxy), Connections: 4, Requests: 20, AppendPath: numbered})
	send(t, load.Options{Addr: loopback(proxy), Connections: 1, Requests: 1, First: 77, AppendPath: numbered, Header: map[string]string{"traceparent": "00-" + named + "-b7ad6b7169203331-00"}})
	ask := func(body string) int {
		t.Helper()
		resp, err := noProxy.Post("http://"+a.listen+"/v1/retro/keep", "application/json", bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for body, want := range map[string]int{`{"trace_id": "` + named + `"}`: http.StatusAccepted, `{"trace_id": "0"}`: http.StatusBadRequest, `no JSON`: http.StatusBadRequest} {
		if got := ask(body); got != want {
			t.Errorf("%s: status %d, want %d", body, got, want)
		}
	}
	a.settle()
	spans := s.all()
	if len(spans) != 3 {
		t.Errorf("%d spans, want the 3 of that trace", len(spans))
	}
	for i := range spans {
		if hex.EncodeToString(spans[i].TraceID[:]) != named {
			t.Errorf("a span of another trace: %s", describe(&spans[i]))
		}
	}
}

// While everything fails, each service keeps so many traces a second; the same ones at all, so that they are whole. Of memory that is
// overwritten before it is read, parts are missing, and nothing is mixed.
func TestRetroOutage(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	fails := func(listen string) string {
		return fmt.Sprintf(`server { listen %s backlog=8192; location / { return 503; } }`, listen)
	}
	st, s := newStack(t), newSink(t)
	proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
	st.nginx("backend", "", fails(loopback(backend)), loopback(backend))
	st.nginx("proxy", "", proxyTo(loopback(proxy), loopback(backend)), loopback(proxy))
	a := trace(t, s, []string{"TARE_RETRO_TRIGGERS=20"}, retroArgs("--retro", "4MiB", "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))...)
	requests := uint64(few(30000))
	drives(t, load.Options{Addr: loopback(proxy), Connections: 32, Requests: requests})
	m := a.quiet(int(requests)) // spans wait for records that were overwritten
	traces := keptTraces(s.all())
	whole := 0
	for id, of := range traces {
		paths := map[string]bool{}
		for i := range of {
			p, _ := of[i].Attr("url.path")
			paths[p.Str] = true
		}
		if len(paths) != 1 || len(of) > 3 {
			t.Errorf("trace %x has %d spans, of %v", id, len(of), slices.Collect(maps.Keys(paths)))
		}
		if len(of) == 3 {
			whole++
		}
	}
	t.Logf("%d traces, %d of them whole\n%v", len(traces), whole, m)
	if len(traces) == 0 || len(traces) > int(requests)/2 {
		t.Errorf("%d traces of %d failed requests", len(traces), requests)
	}
	if m.int(`tare_retro_triggers_total{outcome="limited"}`) == 0 {
		t.Errorf("nothing was limited:\n%v", m)
	}
	missing := len(traces) - whole
	if missing > 0 && m["tare_retro_overwritten_bytes_total"] == 0 && m.lostAll() == 0 {
		t.Errorf("%d of %d traces are not whole, and nothing counts as lost or overwritten:\n%v", missing, len(traces), m)
	}
}

// All that a service did lately is kept by hand.
func TestRetroCapture(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	st, s := newStack(t), newSink(t)
	proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
	st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
	st.nginx("proxy", "", proxyTo(loopback(proxy), loopback(backend)), loopback(proxy))
	a := trace(t, s, nil, retroArgs("--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))...)
	const requests = 500
	send(t, load.Options{Addr: loopback(proxy), Connections: 8, Requests: requests, AppendPath: numbered})
	ask := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), tare, append([]string{"retro", "--agent", a.listen}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := ask("capture", "--service", "nobody", "--for", "1m"); err == nil {
		t.Errorf("a service that is not there was captured: %s", out)
	}
	if out, err := ask("keep", "nonsense"); err == nil {
		t.Errorf("a trace without an id was kept: %s", out)
	}
	if out, err := ask("capture", "--service", "proxy", "--for", "1m"); err != nil || !strings.Contains(out, itoa(requests)+" traces are kept") {
		t.Fatalf("%v: %s", err, out)
	}
	a.settle()
	paths := map[string]bool{}
	for n := range uint64(requests) {
		paths[string(numbered(nil, n))] = true
	}
	wantKept(t, s.all(), "capture", 3, paths)
}

// `tare run` is its own coordinator, and its page finds the traces of failed requests.
func TestRetroOnThePage(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	st := newStack(t)
	proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
	st.nginx("backend", "", failsAt(loopback(backend)), loopback(backend))
	st.nginx("proxy", "", hides(loopback(proxy), loopback(backend)), loopback(proxy))
	w := runWhole(t, "", retroArgs("--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))...)
	const requests = 1000
	drives(t, load.Options{Addr: loopback(proxy), Connections: 16, Requests: requests})
	var found []listed
	testkit.Until(t, time.Minute, "the page has the traces of failed requests", func() bool {
		found = w.traces("retro=error")
		return len(found) >= requests/100
	})
	for _, tr := range found {
		if tr.Spans != 3 || tr.State != "complete" || tr.Service != "proxy" {
			t.Errorf("%+v", tr)
		}
	}
	if all := w.traces(""); len(found) != requests/100 || len(all) != len(found) {
		t.Errorf("%d traces of failed requests, %d in all; want %d", len(found), len(all), requests/100)
	}
	if !strings.Contains(w.Log.String(), "connected to a coordinator") {
		t.Errorf("the agent did not find the coordinator")
	}
}
