package workloads

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads/delay"
	"github.com/tare-trace/tare/workloads/internal/hotel"
	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

// examples are the first requests of each kind about a city in memory, and about
// the one that is not.
func examples() []uint64 {
	seen := map[[2]int]bool{}
	var all []uint64
	for n := uint64(1); len(seen) < 2*len(hotel.Paths); n++ {
		key := [2]int{int(hotel.KindOf(n))}
		if !hotel.InMemory(hotel.Cities[hotel.CityOf(n)]) {
			key[1] = 1
		}
		if !seen[key] {
			seen[key] = true
			all = append(all, n)
		}
	}
	return all
}

func answers(t *testing.T, c *Chain, numbers []uint64) {
	t.Helper()
	for _, n := range numbers {
		path := string(c.AppendPath(nil, n))
		status, body := get(t, c, path)
		want := `"name":"Hotel `
		switch hotel.KindOf(n) {
		case hotel.User:
			want = `{"ok":true}`
		case hotel.Reserve:
			want = `{"city":"` + hotel.Cities[hotel.CityOf(n)]
		}
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
}

func TestHotelAnswers(t *testing.T) {
	bin := servicetest.Build(t, "hotel")
	begin := time.Now()
	c := startWith(t, "hotel", Options{Bin: bin})
	t.Logf("started in %v", time.Since(begin))
	counts := map[string]int{}
	for _, s := range c.Services {
		counts[s.Name]++
	}
	for _, s := range hotelServices {
		assert.Equal(t, s.replicas(), counts[s.name], s.name)
	}
	answers(t, c, examples())
	for _, path := range []string{"/hotels/", "/hotels/x", "/", "/user/-1"} {
		if status, body := get(t, c, path); status != 404 {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	// One replica may go: the others answer. It may come back.
	require.NoError(t, c.Restart(t.Context(), "geo-2"))
	answers(t, c, examples())
	assert.NoError(t, c.Stop())
	gone(t, c)
}

// asShape makes a shape of the spans below a parent; texts are cut before the number.
func asShape(t *testing.T, spans []servicetest.Span, parent []byte, number string) []Shape {
	t.Helper()
	var all []Shape
	for _, s := range spans {
		if !bytes.Equal(s.GetParentSpanId(), parent) {
			continue
		}
		text := s.Attribute("rpc.method")
		if text != "" {
			if got := s.Attribute("rpc.request.metadata.x-request-id"); !strings.Contains(got, `"`+number+`"`) {
				t.Errorf("%s carries %s, not %s", text, got, number)
			}
		} else {
			for _, key := range []string{"url.path", "db.query.text", "db.statement"} {
				if v := s.Attribute(key); v != "" {
					text = v
				}
			}
			var ok bool
			if text, ok = strings.CutSuffix(text, number); !ok {
				t.Errorf("%q does not end with %s", text, number)
			}
		}
		kind := span.Server
		if s.GetKind() == trace.Span_SPAN_KIND_CLIENT {
			kind = span.Client
		}
		all = append(all, Shape{Service: s.Service, Kind: kind, Prefix: text, Children: asShape(t, spans, s.GetSpanId(), number)})
	}
	slices.SortFunc(all, byText)
	return all
}

func byText(a, b Shape) int { return strings.Compare(a.String(), b.String()) }

// The services' own instrumentation gives every request the shape that the truth
// says, on both pipelines.
func TestHotelTraces(t *testing.T) {
	for _, pipeline := range []string{"official", "lean"} {
		t.Run(pipeline, func(t *testing.T) {
			r := servicetest.NewReceiver(t, "127.0.0.1")
			c := startWith(t, "hotel", Options{Bin: servicetest.Build(t, "hotel"), Env: map[string]string{
				"ENABLE_OTEL": "1", "PIPELINE": pipeline, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.URL + "/v1/traces",
			}})
			numbers := examples()
			answers(t, c, numbers)
			if err := c.Stop(); err != nil { // sends the last spans
				t.Fatal(err)
			}
			traces := map[string][]servicetest.Span{}
			for _, s := range r.Spans() {
				traces[string(s.GetTraceId())] = append(traces[string(s.GetTraceId())], s)
			}
			got := map[string][]Shape{}
			for _, spans := range traces {
				root := slices.IndexFunc(spans, func(s servicetest.Span) bool { return len(s.GetParentSpanId()) == 0 })
				path := spans[root].Attribute("url.path")
				if path == "" {
					continue // a connection's, before the first request
				}
				got[path] = asShape(t, spans, nil, path[strings.LastIndexByte(path, '/')+1:])
			}
			assert.Equal(t, len(numbers), len(got))
			for _, n := range numbers {
				path := string(c.AppendPath(nil, n))
				if want := sorted(c.Truth.Within()(n)); !reflect.DeepEqual(got[path], []Shape{want}) {
					t.Errorf("%s: got\n%v\nwant\n%v", path, got[path], want)
				}
			}
		})
	}
}

func sorted(s Shape) Shape {
	var children []Shape
	for _, c := range s.Children {
		children = append(children, sorted(c))
	}
	slices.SortFunc(children, byText)
	s.Children = children
	return s
}

// A cache is late for the requests that DELAY says, and only for them; the answers
// are the same.
func TestHotelDelays(t *testing.T) {
	const text = "geo:60ms:0.2,memcached-rate:80ms:0.2"
	delays, err := delay.Parse(text)
	require.NoError(t, err)
	c := startWith(t, "hotel", Options{Bin: servicetest.Build(t, "hotel"), Env: map[string]string{"DELAY": text}})
	late := 0
	for n := uint64(1); n <= 100; n++ {
		if hotel.KindOf(n) != hotel.Search {
			continue
		}
		want := delays.Of("geo", n) + delays.Of("memcached-rate", n)
		begin := time.Now()
		answers(t, c, []uint64{n})
		if took := time.Since(begin); took < want {
			t.Errorf("request %d took %v, with a delay of %v", n, took, want)
		}
		if want > 0 {
			late++
		}
	}
	if late == 0 {
		t.Error("no request was late")
	}
}

// About half of the calls are between the two nodes, of gRPC and of all.
func TestHotelNodes(t *testing.T) {
	services := map[string]hotelService{}
	for _, s := range slices.Concat(hotelServices, hotelStores) {
		services[s.name] = s
	}
	// on is the share of a service's replicas that are on node 1.
	on := func(name string) float64 {
		s, n, sum := services[name], 1, 0
		if !slices.ContainsFunc(hotelStores, func(st hotelService) bool { return st.name == name }) {
			n = s.replicas()
		}
		for i := range n {
			sum += (s.node + i) % 2
		}
		return float64(sum) / float64(n)
	}
	var calls, between [2]float64 // all, gRPC
	truth := hotelTruth()
	var count func(Shape)
	count = func(s Shape) {
		for _, c := range s.Children {
			if s.Kind == span.Client {
				a, b := on(s.Service), on(c.Service)
				cross := a*(1-b) + b*(1-a)
				for i, counted := range []bool{true, strings.HasPrefix(s.Prefix, "hotel.")} {
					if counted {
						calls[i]++
						between[i] += cross
					}
				}
			}
			count(c)
		}
	}
	for n := range uint64(2000) {
		count(truth(n))
	}
	for i, what := range []string{"all", "gRPC"} {
		if share := between[i] / calls[i]; share < 0.47 || share > 0.53 {
			t.Errorf("%s: %.3f of the calls are between nodes", what, share)
		}
	}
}

func TestHotelOnTwoNodes(t *testing.T) {
	if os.Geteuid() != 0 {
		servicetest.Refuse(t, "network namespaces need root")
	}
	n, err := NewNetwork("hotel")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, n.Close())
		nodes := []*Network{n}
		if n.second != nil { // nil where the service could not be built
			nodes = append(nodes, n.second)
		}
		for _, node := range nodes {
			if _, err := os.Stat(node.Path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", node.Path, err)
			}
		}
	})
	r := servicetest.NewReceiver(t, n.Gateway)
	c := startWith(t, "hotel", Options{Bin: servicetest.Build(t, "hotel"), Network: n, Env: map[string]string{
		"ENABLE_OTEL": "1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.URL + "/v1/traces",
	}})
	answers(t, c, examples())
	hosts := map[string]int{}
	for _, s := range c.Services {
		hosts[s.Host]++
	}
	if len(hosts) != 2 || hosts[n.Host] == 0 || hosts[n.second.Host] == 0 {
		t.Errorf("services by address: %v", hosts)
	}
	assert.NoError(t, c.Stop())
	// Both nodes reach the receiver.
	seen := map[string]bool{}
	for _, s := range r.Spans() {
		seen[s.Service] = true
	}
	for _, s := range hotelServices {
		assert.True(t, seen[s.name], "no span of %s", s.name)
	}
}

func TestHotelOptionsThatCannotWork(t *testing.T) {
	bin := servicetest.Build(t, "hotel")
	need(t, "hotel")
	for want, env := range map[string]map[string]string{
		`no service or cache "x"`: {"DELAY": "x:1ms:1"},
		"it has not three parts":  {"DELAY": "geo"},
		"neither 1 nor 2":         {"NODES": "3"},
		"need a network":          {"NODES": "2"},
		"REDIS is set by":         {"REDIS": "x"},
	} {
		if _, err := Start(t.Context(), "hotel", Options{Bin: bin, Env: env}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", env, err)
		}
	}
}
