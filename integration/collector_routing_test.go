package integration

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span/semconv"
)

// lan are network namespaces on one bridge, and this host on it, too. The
// addresses are reserved for documentation (RFC 5737), another network of 16 for each.
type lan struct {
	first int // last byte of the network's address
	hosts []string
}

var lansMade atomic.Int64

// here is the address of this host.
func (l lan) here() string { return fmt.Sprintf("198.51.100.%d", l.first+1) }

func (l lan) network() string { return fmt.Sprintf("198.51.100.%d/28", l.first) }

// address of a host of the LAN.
func (l lan) address(host int) string { return fmt.Sprintf("198.51.100.%d", l.first+2+host) }

func newLAN(t *testing.T, hosts int) lan {
	t.Helper()
	need(t, "ip", "nsenter")
	nth := anotherName()
	bridge := "tare" + nth
	t.Cleanup(func() { sh(t, "ip", "link", "del", bridge) })
	sh(t, "ip", "link", "add", bridge, "type", "bridge")
	l := lan{first: 128 + int(lansMade.Add(1)%8)*16}
	sh(t, "ip", "address", "add", l.here()+"/28", "dev", bridge)
	sh(t, "ip", "link", "set", bridge, "up")
	for i := range hosts {
		ns := fmt.Sprintf("tare-%c-%s", 'a'+i, nth)
		sh(t, "ip", "netns", "add", ns)
		t.Cleanup(func() { sh(t, "ip", "netns", "del", ns) })
		// The end in the bridge goes with the one in the namespace.
		sh(t, "ip", "-n", ns, "link", "add", cable, "type", "veth", "peer", "name", fmt.Sprintf("%s%c", bridge, 'a'+i), "netns", itoa(os.Getpid()))
		sh(t, "ip", "link", "set", fmt.Sprintf("%s%c", bridge, 'a'+i), "master", bridge, "up")
		sh(t, "ip", "-n", ns, "address", "add", l.address(i)+"/28", "dev", cable)
		sh(t, "ip", "-n", ns, "link", "set", cable, "up")
		sh(t, "ip", "-n", ns, "link", "set", "lo", "up")
		l.hosts = append(l.hosts, ns)
	}
	return l
}

// routed are three hosts, each with a service of a chain and an agent, before
// gateway.yaml and two of tracing.yaml, which have stores of their own.
type routed struct {
	lan        lan
	entry      string
	agents     []*tracer
	gateway    *daemon
	collectors [2]*stored
	listen     [2]string // of the collectors
	dirs       [2]string
}

var routedServices = []string{"proxy", "middle", "backend"}

func newRouted(t *testing.T) *routed {
	t.Helper()
	l, st := newLAN(t, len(routedServices)), newStack(t)
	w := &routed{lan: l}
	var addresses []string
	for i := range routedServices {
		addresses = append(addresses, net.JoinHostPort(l.address(i), itoa(testkit.FreePort(t))))
	}
	w.entry = addresses[0]
	last := len(routedServices) - 1
	for i := last; i >= 0; i-- {
		http := answer(addresses[i])
		if i < last {
			http = proxyTo(addresses[i], addresses[i+1])
		}
		st.nginx(routedServices[i], l.hosts[i], http, addresses[i])
	}
	for i := range w.collectors {
		w.listen[i], w.dirs[i] = ownLoopback().String(), t.TempDir()
		w.collect(t, i)
	}
	w.route(t, l.here())
	for i, name := range routedServices {
		_, port, _ := net.SplitHostPort(addresses[i])
		a := launchAt(t, net.JoinHostPort(l.address(i), itoa(testkit.FreePort(t))), &sink{url: "http://" + l.here() + ":4318"}, nil,
			program("nsenter"), "--net=/run/netns/"+l.hosts[i], "--", filepath.Join(bin, "tare-agent"),
			"--port", name+"="+port, "--trust", "loopback", "--trust", "host", "--trust", l.network())
		w.agents = append(w.agents, a)
		testkit.Until(t, 30*time.Second, "the agent of "+name+" traces", a.healthy)
	}
	return w
}

// ownMetrics are the flags that give a collector its own Prometheus endpoint.
func ownMetrics(t *testing.T) (address string, args []string) {
	t.Helper()
	port := testkit.FreePort(t)
	return loopback(port), []string{
		"--set", "extensions.health_check.endpoint=" + loopback(testkit.FreePort(t)),
		"--set", fmt.Sprintf("service.telemetry.metrics.readers=[{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %d, without_type_suffix: true, without_units: true}}}}]", port),
	}
}

// collect starts a collector of the second tier, or starts it again.
func (w *routed) collect(t *testing.T, i int) {
	t.Helper()
	metrics, args := ownMetrics(t)
	s := &stored{page: loopback(testkit.FreePort(t))}
	own := fmt.Sprintf("yaml:{exporters: {tare_store: }, extensions: {tare_store: {directory: %q}, tare_page: {endpoint: %q}},"+
		" service: {extensions: [health_check, tare_store, tare_page], pipelines: {traces: {exporters: [tare_store]}}}}", w.dirs[i], s.page)
	s.daemon = collectFile(t, metrics, "../deploy/collector/tracing.yaml", []string{"TARE_LISTEN=" + w.listen[i]},
		append(args, "--config", own, "--plaintext")...)
	w.collectors[i] = s
}

// route starts the first tier, or starts it again.
func (w *routed) route(t *testing.T, listen string, more ...string) {
	t.Helper()
	if w.gateway != nil {
		w.gateway.Stop()
	}
	metrics, args := ownMetrics(t)
	w.gateway = collectFile(t, metrics, "../deploy/collector/gateway.yaml",
		[]string{"TARE_LISTEN=" + listen, "TARE_COLLECTOR_1=" + w.listen[0], "TARE_COLLECTOR_2=" + w.listen[1]},
		append(append(args, "--plaintext"), more...)...)
}

// routedSpans of a request: two services with a client and a server span each,
// one with a server span.
const routedSpans = 5

// handedOn waits until the agents have made all spans of so many requests since
// they began, and the gateway has taken them; nothing may be lost on the way.
func (w *routed) handedOn(t *testing.T, requests int) {
	t.Helper()
	spans := requests * routedSpans
	made, taken := 0, 0
	count := func() {
		made, taken = 0, 0
		for _, a := range w.agents {
			m := a.mustMetrics()
			made += m.int("tare_spans_total")
			taken += m.int("tare_export_spans_total")
		}
	}
	testkit.Until(t, time.Minute, fmt.Sprintf("%d spans are made and taken", spans), func() bool {
		count()
		return made >= spans && taken >= made
	})
	if made != spans || taken != spans {
		t.Errorf("agents made %d spans and handed on %d, want %d", made, taken, spans)
	}
	for _, a := range w.agents {
		for key, n := range a.mustMetrics() {
			if strings.HasPrefix(key, "tare_lost_total") && n > 0 {
				t.Errorf("%s %v", key, n)
			}
		}
	}
}

// summary is a trace as the query API lists it.
type summary struct {
	TraceID  string `json:"trace_id"`
	State    string
	Reason   string
	Spans    int
	Services []struct {
		Name  string
		Spans int
	}
}

// traces are all that the store holds, by id.
func (s *stored) traces(t *testing.T) map[string]summary {
	t.Helper()
	all := map[string]summary{}
	for after := ""; ; {
		var page struct {
			Traces []summary
			Next   string
		}
		if err := s.get("/api/v1/traces?last=1h&limit=1000&after="+url.QueryEscape(after), &page); err != nil {
			t.Fatal(err)
		}
		for _, one := range page.Traces {
			all[one.TraceID] = one
		}
		if after = page.Next; after == "" {
			return all
		}
	}
}

// inOrder waits until both stores hold so many spans, and requires that each
// trace is in one of them with all of its spans.
func (w *routed) inOrder(t *testing.T, traces int) (first, second map[string]summary) {
	t.Helper()
	stored := func() (n int) {
		for _, c := range w.collectors {
			var stats struct{ Spans int }
			if err := c.get("/api/v1/stats", &stats); err == nil {
				n += stats.Spans
			}
		}
		return n
	}
	testkit.Until(t, time.Minute, fmt.Sprintf("%d traces are stored", traces), func() bool { return stored() >= traces*routedSpans })
	first, second = w.collectors[0].traces(t), w.collectors[1].traces(t)
	if n := stored(); n != traces*routedSpans || len(first)+len(second) != traces {
		t.Errorf("%d spans in %d and %d traces, want %d in %d", n, len(first), len(second), traces*routedSpans, traces)
	}
	if min(len(first), len(second)) < traces/5 {
		t.Errorf("%d traces at one collector and %d at the other: not a fair share", len(first), len(second))
	}
	want := map[string]int{"proxy": 2, "middle": 2, "backend": 1}
	wrong := 0
	for _, store := range []map[string]summary{first, second} {
		for id, one := range store {
			got := map[string]int{}
			for _, s := range one.Services {
				got[s.Name] = s.Spans
			}
			_, here := first[id]
			_, there := second[id]
			if !maps.Equal(got, want) || here == there {
				if wrong++; wrong <= 3 {
					t.Errorf("trace %s has spans %v; it is in the first store: %t, in the second: %t", id, got, here, there)
				}
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d traces are not whole in one store", wrong, traces)
	}
	return first, second
}

func incomplete(traces map[string]summary) map[string]int {
	n := map[string]int{}
	for _, one := range traces {
		if one.State != semconv.StateComplete {
			n[one.State+" "+one.Reason]++
		}
	}
	return n
}

// Three hosts with an agent each, a gateway that routes by trace id and two
// collectors: no trace is split.
func TestCollectorRouting(t *testing.T) {
	t.Parallel()
	w := newRouted(t)
	const requests = 3000
	send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
	w.handedOn(t, requests)
	first, second := w.inOrder(t, requests)
	t.Logf("%d traces at one collector, %d at the other", len(first), len(second))
	for _, store := range []map[string]summary{first, second} {
		if bad := incomplete(store); len(bad) > 0 {
			t.Errorf("not complete: %v", bad)
		}
	}
}

// A collector stops in the middle of the load and comes back: no request fails,
// every span arrives. Traces that were under way come in two parts; the others
// are complete, all of those that go to the other collector among them.
func TestCollectorRoutingRestart(t *testing.T) {
	t.Parallel()
	w := newRouted(t)
	l := keepSending(t, load.Options{Addr: w.entry, Connections: 16, Rate: 400, AppendPath: numbered})
	l.more(500)
	w.collectors[1].Stop()
	l.more(1500)
	w.collect(t, 1)
	l.more(1500)
	requests := int(l.end().OK)
	w.handedOn(t, requests)
	first, second := w.inOrder(t, requests)
	t.Logf("%d traces at one collector, %d at the other; there not complete: %v", len(first), len(second), incomplete(second))
	if bad := incomplete(first); len(bad) > 0 {
		t.Errorf("not complete at the collector that went on: %v", bad)
	}
	cut := 0
	for _, n := range incomplete(second) {
		cut += n
	}
	// What began within a second or so of some six.
	if cut > len(second)/2 {
		t.Errorf("%d of %d traces are not complete", cut, len(second))
	}
	if failed := w.gateway.metric("otelcol_exporter_send_failed_spans"); failed > 0 {
		t.Errorf("the gateway lost %v spans", failed)
	}
}

// A collector that stays away costs its share of the traces, and only that. The
// framework publishes no metrics of the exporters within load_balancing: that the
// gateway gave up is in its log, and how much in what the collectors did not get.
func TestCollectorRoutingLoss(t *testing.T) {
	t.Parallel()
	w := newRouted(t)
	// Minutes in gateway.yaml.
	w.route(t, w.lan.here(), "--set", "exporters.load_balancing.protocol.otlp.retry_on_failure={initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 2s}")
	w.collectors[1].Kill()
	const requests = 2000
	send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
	w.handedOn(t, requests)
	alive := w.collectors[0]
	testkit.Until(t, time.Minute, "the gateway gives up", func() bool {
		return strings.Contains(w.gateway.Log.String(), "Dropping data") && strings.Contains(w.gateway.Log.String(), w.listen[1])
	})
	// What came before this is with the other one by now, but for what settles.
	var came float64
	testkit.Until(t, time.Minute, "all is stored that came", func() bool {
		came = alive.metric("otelcol_receiver_accepted_spans")
		return came > 0 && alive.metric("tare_store_written_spans") == came
	})
	traces := alive.traces(t)
	sent := w.gateway.metric("otelcol_exporter_sent_spans")
	t.Logf("%v spans sent, %v came, in %d traces", sent, came, len(traces))
	if sent != requests*routedSpans {
		t.Errorf("the gateway passed on %v spans, want %d", sent, requests*routedSpans)
	}
	if n := len(traces); n < requests/5 || n > requests*4/5 || float64(n*routedSpans) != came {
		t.Errorf("%d traces with %v spans at the collector that went on, of %d", n, came, requests)
	}
	if bad := incomplete(traces); len(bad) > 0 {
		t.Errorf("not complete: %v", bad)
	}
}
