package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/workloads"
)

// translator starts a proxy between a port and the next: a side speaks HTTP/2, without TLS, or HTTP/1.
type translator func(c *servers, name string, port, next int, in, out string) *workloads.Process

func nodeTranslates(c *servers, name string, port, next int, in, out string) *workloads.Process {
	return c.service(name, "", nil, "node", testdata("translate.js"), in, itoa(port), out, itoa(next))
}

// envoyTranslates speaks what comes in, by how it begins.
func envoyTranslates(c *servers, name string, port, next int, _, out string) *workloads.Process {
	c.t.Helper()
	if _, err := os.Stat(envoy); err != nil {
		c.t.Skip("make polyglot gets Envoy: ", err)
	}
	options := "{http_protocol_options: {}}"
	if out == "http2" {
		options = "{http2_protocol_options: {}}"
	}
	conf := c.file("envoy-"+name+".yaml", fmt.Sprintf(`static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: next}}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: next
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: %s
    circuit_breakers: {thresholds: [{max_connections: 4096, max_pending_requests: 4096, max_requests: 4096}]}
    load_assignment:
      cluster_name: next
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]
`, port, options, next))
	return c.service(name, "", nil, envoy, "-c", conf, "--disable-hot-restart", "--log-level", "error", "--concurrency", "2")
}

// envoy is what make polyglot gets.
var envoy = filepath.Join(bin, "polyglot/envoy/envoy/_bin/envoy")

var translators = []struct {
	name  string
	needs []string
	start translator
}{
	{"node", []string{"node"}, nodeTranslates},
	{"envoy", nil, envoyTranslates},
}

// three are proxies behind each other, none of which anything but a header links: HTTP/1 comes in, HTTP/2 is spoken between
// them, and the last asks the backend over HTTP/1.
func three(t *testing.T, start translator, options ...string) *forwarder {
	t.Helper()
	c, sink := newServers(t, "backend"), newSink(t)
	middle, last := testkit.FreePort(t), testkit.FreePort(t)
	c.selects("middle", middle)
	c.selects("last", last)
	for _, p := range []struct {
		name, in, out string
		port, next    int
	}{{"last", "http2", "http1", last, c.backend}, {"middle", "http2", "http2", middle, last}, {"service", "http1", "http2", c.entry, middle}} {
		c.ready(start(c, p.name, p.port, p.next, p.in, p.out), loopback(p.port))
	}
	f := &forwarder{servers: c, sink: sink, tracer: trace(t, sink, options, c.ports...)}
	f.learn(t, "x-request-id")
	return f
}

// followed counts calls of the services that are below a request, whose numbers agree with those of the next spans above
// that have one; and those whose numbers do not.
func followed(spans []span.Span, services ...string) (linked, wrong int) {
	byID := map[span.ID]*span.Span{}
	for i := range spans {
		byID[spans[i].ID] = &spans[i]
	}
	for i := range spans {
		sp := &spans[i]
		if sp.Kind == span.Client && byID[sp.Parent] != nil {
			for _, s := range services {
				if sp.Resource.Service == s {
					linked++
				}
			}
		}
		number := requestOf(sp)
		for above := byID[sp.Parent]; above != nil && number != ""; above = byID[above.Parent] {
			if n := requestOf(above); n != "" {
				if n != number {
					wrong++
				}
				break
			}
		}
	}
	return linked, wrong
}

// Calls over HTTP/2 are linked by a header, from HTTP/1 and to it, too.
func TestHeaderOverHTTP2(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	for _, tr := range translators {
		t.Run(tr.name, func(t *testing.T) {
			need(t, tr.needs...)
			f := three(t, tr.start)
			for i, d := range []drive{kept, one, many} {
				t.Run(d.name, func(t *testing.T) {
					d.header = header(fmt.Sprintf("x-request-id: drive-%d-%%08d\r\n", i), own)
					spans, m, answered, _ := f.drive(t, d)
					wantNoErrors(t, spans)
					linked, wrong := followed(spans, "service", "middle", "last")
					t.Logf("%d of %d calls are linked, %d wrongly", linked, 3*answered, wrong)
					if linked < 3*(answered-answered/1000-spare) || wrong > 0 {
						t.Errorf("%d of %d calls are linked, %d wrongly\n%v", linked, 3*answered, wrong, m)
					}
					for i := range spans {
						linking, _ := spans[i].Attr(semconv.Linking)
						if spans[i].Resource.Service != "backend" && linking.Str != semconv.LinkingHeader {
							t.Fatalf("%s=%s, want it linked by the header: %s", semconv.Linking, linking.Str, describe(&spans[i]))
						}
					}
				})
			}
		})
	}
}

// A value that does not tell streams apart links nothing to another request. Each drive's values begin as no other's, and
// come twice: in the first round it gets to know them.
func TestHeaderDoubtsOverHTTP2(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "node")
	for _, tc := range []struct {
		name   string
		env    []string
		drives []drive
	}{
		{name: "all sampled", drives: []drive{
			{name: "the same in all requests", header: header("x-request-id: constant-%08d\r\n", constant)},
			{name: "the same in two requests at once", header: header("x-request-id: pairs-%08d\r\n", ofPairs)},
			{name: "values that come again", header: header("x-request-id: repeated-%08d\r\n", repeated)},
		}},
		{name: "a tenth sampled", env: []string{"OTEL_TRACES_SAMPLER_ARG=0.1"}, drives: []drive{
			{name: "values of their own", requests: 3000, header: header("x-request-id: own-%08d\r\n", own)},
			{name: "values that come again", requests: 3000, header: header("x-request-id: repeated-%08d\r\n", repeated)},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := three(t, nodeTranslates, tc.env...)
			for _, d := range tc.drives {
				for round := range 2 {
					spans, m, answered, counted := f.drive(t, d)
					linked, wrong := followed(spans, "service", "middle", "last")
					t.Logf("%s: %d answered, %d linked, %d wrongly, %d counted", d.name, answered, linked, wrong, counted["all"])
					first := d.name == "values of their own" && round == 0
					if wrong > 0 || first != (counted["header"] == 0) || first && linked == 0 {
						t.Errorf("%s: %d are linked, %d of them wrongly; %d counted\n%v", d.name, linked, wrong, counted["header"], m)
					}
				}
			}
		})
	}
}

// Whatever frames a client cuts its headers into, however it compresses them: requests are told apart by them. Each
// client has one request at a time, so that spans are known by their connection and order.
func TestHeaderInFrames(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "node")
	c, sink := newServers(t, "backend"), newSink(t)
	c.ready(nodeTranslates(c, "service", c.entry, c.backend, "http2", "http1"), loopback(c.entry))
	a := trace(t, sink, nil, c.ports...)
	const clients, each = 16, 40
	ports := make([]string, clients)
	round := func(first int) {
		inParallel(t, clients, clients, func(i int) error {
			client, err := dialFrames(loopback(c.entry), int64(first+i))
			if err != nil {
				return err
			}
			defer client.conn.Close()
			_, ports[i], _ = net.SplitHostPort(client.conn.LocalAddr().String())
			for n := range each {
				if err := client.ask(first + each*i + n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	learned := 1 << 20
	testkit.Until(t, time.Minute, "its requests are noted", func() bool {
		before := a.mustMetrics().unlinked()
		learned += 1000
		round(learned)
		return a.settle().unlinked() == before
	})
	sink.take()
	round(0)
	m := a.settle()
	spans := sink.all()
	requests, linked := map[string][]*span.Span{}, 0
	for i := range spans {
		if spans[i].Resource.Service == "service" && spans[i].Kind == span.Server {
			port, _ := spans[i].Attr("network.peer.port")
			requests[port.Text()] = append(requests[port.Text()], &spans[i])
		}
	}
	numbers := map[span.ID]string{}
	for i, port := range ports {
		of := requests[port]
		slices.SortFunc(of, func(a, b *span.Span) int { return cmp.Compare(a.Start, b.Start) })
		for n, sp := range of {
			numbers[sp.ID] = itoa(each*i + n)
		}
	}
	for i := range spans {
		if sp := &spans[i]; sp.Resource.Service == "service" && sp.Kind == span.Client {
			if linked++; numbers[sp.Parent] != requestOf(sp) {
				t.Errorf("of request %q: %s", numbers[sp.Parent], describe(sp))
			}
		}
	}
	if len(numbers) != clients*each || linked != clients*each || m.lost("http2_headers") > 0 {
		t.Errorf("%d requests, %d calls are linked, want %d\n%v", len(numbers), linked, clients*each, m)
	}
}

// framed is a client of HTTP/2 that writes frames as nobody would, or whole: a request is one frame in one write.
type framed struct {
	conn    net.Conn
	whole   bool
	out     bytes.Buffer
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	random  *rand.Rand
	stream  uint32
}

func dialFrames(addr string, seed int64) (*framed, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	f := &framed{conn: conn, random: rand.New(rand.NewPCG(uint64(seed), 1)), stream: 1} //nolint:gosec // a seed
	f.framer = http2.NewFramer(f, conn)
	f.encoder = hpack.NewEncoder(&f.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	return f, f.framer.WriteSettings()
}

// Write cuts what is written.
func (f *framed) Write(p []byte) (n int, err error) {
	if f.whole {
		return f.out.Write(p)
	}
	for n < len(p) && err == nil {
		size, wrote := len(p)-n, 0
		if f.random.IntN(2) == 0 {
			size = 1 + f.random.IntN(size)
		}
		wrote, err = f.conn.Write(p[n : n+size])
		n += wrote
	}
	return n, err
}

func (f *framed) ask(number int) error {
	if f.random.IntN(8) == 0 {
		f.encoder.SetMaxDynamicTableSize(uint32(f.random.IntN(4097)))
	}
	return f.send(number,
		hpack.HeaderField{Name: "x-other", Value: strings.Repeat("o", f.random.IntN(1500)), Sensitive: f.random.IntN(2) == 0},
		hpack.HeaderField{Name: "x-request-id", Value: fmt.Sprintf("5f1c2b0e-%08d", number), Sensitive: f.random.IntN(3) == 0})
}

// send asks for a path with the number, with these headers beside it.
func (f *framed) send(number int, headers ...hpack.HeaderField) error {
	f.block.Reset()
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "service"}, {Name: ":path", Value: fmt.Sprintf("/n/%d", number)},
	}, headers...) {
		if err := f.encoder.WriteField(field); err != nil {
			return err
		}
	}
	block := f.block.Bytes()
	p := http2.HeadersFrameParam{StreamID: f.stream, EndStream: true, PadLength: uint8(f.random.IntN(2) * f.random.IntN(256))}
	if f.random.IntN(2) == 0 {
		p.Priority = http2.PriorityParam{Weight: 7}
	}
	first := f.random.IntN(len(block) + 1)
	if f.whole || f.random.IntN(2) == 0 {
		first = len(block)
	}
	p.BlockFragment, p.EndHeaders = block[:first], first == len(block)
	if err := f.framer.WriteHeaders(p); err != nil {
		return err
	}
	for i, rest := 0, block[first:]; len(rest) > 0; i++ {
		n := 1 + f.random.IntN(len(rest))
		if i == 3 { // servers put up with a few
			n = len(rest)
		}
		if err := f.framer.WriteContinuation(f.stream, n == len(rest), rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if f.whole {
		if _, err := f.out.WriteTo(f.conn); err != nil {
			return err
		}
	}
	return f.answered()
}

// answered reads until the stream has ended.
func (f *framed) answered() error {
	for {
		if err := f.conn.SetReadDeadline(time.Now().Add(testkit.Patient(30 * time.Second))); err != nil {
			return err
		}
		frame, err := f.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if err := f.framer.WriteSettingsAck(); err != nil {
					return err
				}
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return fmt.Errorf("%v", frame)
		}
		if h := frame.Header(); h.StreamID == f.stream && h.Flags.Has(http2.FlagDataEndStream) && (h.Type == http2.FrameData || h.Type == http2.FrameHeaders) {
			f.stream += 2
			return nil
		}
	}
}
