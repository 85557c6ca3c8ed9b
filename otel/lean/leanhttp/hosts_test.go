package leanhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/leanhttp"
	"github.com/tare-trace/tare/otel/lean/w3c"
)

func TestHosts(t *testing.T) {
	h, err := leanhttp.ParseHosts("Cart.Shop.internal.", "*.mesh.internal", "single", "10.0.0.0/8", "192.0.2.7", "[2001:db8::1]", "fe80::/10", "::1")
	require.NoError(t, err)
	for host, want := range map[string]bool{
		"cart.shop.internal": true, "CART.shop.INTERNAL.:8080": true, "cart.shop.internal.evil.example": false,
		"shop.internal": false, "a.cart.shop.internal": false, "xcart.shop.internal": false, "cart.shop.internal..": false,
		"a.mesh.internal": true, "a.b.mesh.internal:1": true, "mesh.internal": false, "amesh.internal": false, ".mesh.internal": false,
		"single": true, "single.example": false, "": false,
		"10.1.2.3": true, "10.1.2.3:80": true, "11.1.2.3": false, "[::ffff:10.1.2.3]": true, "[::ffff:11.1.2.3]": false,
		"10.1": false, "0x0a010203": false, "167838211": false, // other spellings of 10.1.2.3, which some resolvers know
		"192.0.2.7": true, "192.0.2.8": false, "[2001:db8::1]:443": true, "[2001:db8:0::0:1]": true, "[2001:db8::2]": false,
		"[fe80::1%25eth0]": true, "[::1]": true, "127.0.0.1": false,
	} {
		u, err := url.Parse("https://" + host + "/path")
		require.NoError(t, err)
		if got := h.Has(u); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	if none, err := leanhttp.ParseHosts(); err != nil || none.Has(&url.URL{Host: "a"}) || new(leanhttp.Hosts).Has(&url.URL{Host: "a"}) {
		t.Errorf("an empty set has hosts, or %v", err)
	}
}

func TestWrongHosts(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "is empty", "*": "every host", "*.": "every host", "a..b": "is empty", ".a": "is empty", "a*.b": "whole first part", "a.*.b": "whole first part",
		"a:80": "ports", "10.0.0.1:80": "ports", "[::1]:80": "ports", "https://a": "not a network", "10.0.0.0/33": "not a network",
		"::ffff:10.0.0.0/104": "as such", "bücher.example": "xn--", "a b": "xn--", strings.Repeat("a.", 127) + "a": "253",
	} {
		_, err := leanhttp.ParseHosts("fine.example", pattern)
		if want == "253" {
			pattern = ""
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), pattern) {
			t.Errorf("%q: %v, want %q", pattern, err, want)
		}
	}
	if _, err := leanhttp.ParseHosts("a:1", "b:2"); err == nil || !strings.Contains(err.Error(), `"a:1"`) || !strings.Contains(err.Error(), `"b:2"`) {
		t.Errorf("not every wrong pattern is named: %v", err)
	}
}

// Whatever is believed to be a host of the set is the name that a pattern has, a name below it, or
// an address of the network.
func FuzzHosts(f *testing.F) {
	f.Add("*.a", "b.a:80")
	f.Add("10.0.0.0/8", "[::ffff:10.0.0.1]")
	f.Add("a.b.", "A.B")
	f.Add("::1", "[::1%25x]")
	f.Fuzz(func(t *testing.T, pattern, host string) {
		h, err := leanhttp.ParseHosts(pattern)
		if err != nil {
			return
		}
		u := &url.URL{Scheme: "http", Host: host}
		if !h.Has(u) {
			return
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		plain := strings.ToLower(strings.TrimSuffix(pattern, "."))
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			n, err := netip.ParsePrefix(pattern)
			if err != nil {
				one := netip.MustParseAddr(strings.Trim(pattern, "[]")).Unmap().WithZone("")
				n = netip.PrefixFrom(one, one.BitLen())
			}
			assert.True(t, n.Contains(a.Unmap().WithZone("")), "%q has %q", pattern, host)
			return
		}
		if domain, below := strings.CutPrefix(plain, "*"); below && !strings.HasSuffix(name, domain) || !below && name != plain {
			t.Errorf("%q has %q", pattern, host)
		}
	})
}

// What arrives at a host of the list and at another, of every kind of provider and propagator.
func TestPropagationTo(t *testing.T) {
	for name, c := range map[string]struct {
		propagator propagation.TextMapPropagator
		headers    []string // that hosts of the list get, apart from baggage
	}{
		"w3c":      {w3c.Propagator{}, []string{"Traceparent", "Baggage"}},
		"official": {propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}), []string{"Traceparent", "Baggage"}},
		"other":    {ownPropagator{}, []string{"X-Own-Trace"}},
	} {
		for kind, sampler := range map[string]sdktrace.Sampler{"sampled": sdktrace.AlwaysSample(), "not sampled": sdktrace.NeverSample()} {
			t.Run(name+", "+kind+", lean", func(t *testing.T) {
				tp, spans := provider(t, sampler)
				want := map[string]int{"sampled": 4, "not sampled": 0}[kind]
				propagates(t, c.propagator, tp, c.headers)
				assert.Equal(t, want, len(spans()), "client spans")
			})
			t.Run(name+", "+kind+", SDK", func(t *testing.T) {
				rec := tracetest.NewSpanRecorder()
				tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec), sdktrace.WithSampler(sampler))
				want := map[string]int{"sampled": 4, "not sampled": 0}[kind]
				propagates(t, c.propagator, tp, c.headers)
				assert.Equal(t, want, len(rec.Ended()), "client spans")
			})
		}
	}
}

// propagates sends a request to a host of the list, one to another, and one to each that is
// redirected to the other one: four requests that the transport sees, and one that a filter takes out.
func propagates(t *testing.T, p propagation.TextMapPropagator, tp trace.TracerProvider, headers []string) {
	t.Helper()
	var arrived http.Header
	record := func(_ http.ResponseWriter, r *http.Request) { arrived = r.Header.Clone() }
	foreign := httptest.NewServer(http.HandlerFunc(record))
	defer foreign.Close()
	foreignURL := strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1)
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record(w, r)
		if r.URL.Path == "/away" {
			for _, h := range headers {
				if arrived.Get(h) == "" {
					t.Errorf("%s did not arrive at the host of the list that redirects", h)
				}
			}
			http.Redirect(w, r, foreignURL, http.StatusFound)
		}
	}))
	defer own.Close()
	hosts, err := leanhttp.ParseHosts("127.0.0.0/8")
	require.NoError(t, err)
	client := http.Client{Transport: leanhttp.NewTransport(nil, leanhttp.WithTracerProvider(tp), leanhttp.WithPropagators(p), leanhttp.WithPropagationTo(hosts),
		leanhttp.WithFilter(func(r *http.Request) bool { return r.URL.Path != "/filtered" }))}
	defer client.CloseIdleConnections()
	member, err := baggage.NewMember("user", "42")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	ctx := baggage.ContextWithBaggage(context.Background(), bag)
	get := func(to string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
		require.NoError(t, err)
		// As a reverse proxy leaves them, one of them not in its canonical spelling.
		r.Header["tracestate"] = []string{"from=caller"}
		r.Header.Set("Baggage", "from=caller")
		r.Header.Set("X-Own-Trace", "from caller")
		r.Header.Set("X-Other", "kept")
		before := len(r.Header)
		res, err := client.Do(r)
		require.NoError(t, err)
		assert.NoError(t, res.Body.Close())
		if len(r.Header) != before || r.Header.Get("X-Own-Trace") != "from caller" {
			t.Errorf("the caller's header is now %v", r.Header)
		}
	}
	nothing := func(what string) {
		t.Helper()
		assert.Equal(t, "kept", arrived.Get("X-Other"), "%s: %v, without the caller's own header", what, arrived)
		for _, h := range append([]string{"Traceparent", "Tracestate", "Baggage"}, headers...) {
			assert.Empty(t, arrived.Get(h), "%s got %s", what, h)
		}
	}
	get(own.URL)
	for _, h := range headers {
		if v := arrived.Get(h); v == "" || strings.HasPrefix(v, "from") {
			t.Errorf("a host of the list got %s: %q", h, v)
		}
	}
	get(foreignURL)
	nothing("a foreign host")
	get(own.URL + "/away")
	nothing("a foreign host, after a redirect,")
	get(foreignURL + "/filtered")
	nothing("a foreign host, past a filter,")
}

// ownPropagator is one that the package does not know.
type ownPropagator struct{}

func (ownPropagator) Inject(_ context.Context, c propagation.TextMapCarrier) {
	c.Set("x-own-trace", "1")
}
func (ownPropagator) Extract(ctx context.Context, _ propagation.TextMapCarrier) context.Context {
	return ctx
}
func (ownPropagator) Fields() []string { return []string{"x-own-trace"} }
