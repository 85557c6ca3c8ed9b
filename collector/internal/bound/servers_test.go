package bound

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/jaegerreceiver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/zipkinreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/collector/internal/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peers are all receivers that decode what arrives, on unix sockets.
type peers struct {
	sink      *consumertest.TracesSink
	telemetry *componenttest.Telemetry
	paths     map[string]string
	client    http.Client
}

func unixAddr(path string) confignet.AddrConfig {
	return confignet.AddrConfig{Transport: confignet.TransportTypeUnix, Endpoint: path}
}

func start(t *testing.T) *peers {
	t.Helper()
	dir := t.TempDir()
	p := &peers{sink: new(consumertest.TracesSink), telemetry: componenttest.NewTelemetry(), paths: map[string]string{}}
	path := func(name string) string { p.paths[name] = filepath.Join(dir, name); return p.paths[name] }

	otlp := otlpreceiver.NewFactory().CreateDefaultConfig().(*otlpreceiver.Config)
	g := configgrpc.NewDefaultServerConfig()
	g.NetAddr = unixAddr(path("otlp.grpc"))
	otlp.Protocols.GRPC = configoptional.Some(g)
	h := confighttp.NewDefaultServerConfig()
	h.NetAddr = unixAddr(path("otlp.http"))
	otlp.Protocols.HTTP = configoptional.Some(otlpreceiver.HTTPConfig{ServerConfig: h, TracesURLPath: "/v1/traces", MetricsURLPath: "/v1/metrics", LogsURLPath: "/v1/logs"})

	zipkin := zipkinreceiver.NewFactory().CreateDefaultConfig().(*zipkinreceiver.Config)
	zipkin.ServerConfig.NetAddr = unixAddr(path("zipkin"))

	jaeger := jaegerreceiver.NewFactory().CreateDefaultConfig().(*jaegerreceiver.Config)
	g.NetAddr = unixAddr(path("jaeger.grpc"))
	h.NetAddr = unixAddr(path("jaeger.http"))
	jaeger.Protocols = jaegerreceiver.Protocols{GRPC: configoptional.Some(g), ThriftHTTP: configoptional.Some(h)}

	same := func(l *zap.Logger) *zap.Logger { return l }
	for _, r := range []struct {
		factory receiver.Factory
		config  component.Config
	}{
		{limit.Receivers(Receivers(otlpreceiver.NewFactory(), OTLP, same)), otlp},
		{limit.Receivers(Receivers(zipkinreceiver.NewFactory(), Zipkin, same)), zipkin},
		{limit.Receivers(Receivers(jaegerreceiver.NewFactory(), Jaeger, same)), jaeger},
	} {
		p.run(t, r.factory, r.config)
	}
	p.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, "unix", p.paths[host])
	}}
	t.Cleanup(p.client.CloseIdleConnections)
	t.Cleanup(func() { _ = p.telemetry.Shutdown(context.WithoutCancel(t.Context())) })
	return p
}

// run starts a receiver that passes on to the sink.
func (p *peers) run(t *testing.T, f receiver.Factory, cfg component.Config) {
	t.Helper()
	set := receivertest.NewNopSettings(f.Type())
	set.TelemetrySettings = p.telemetry.NewTelemetrySettings()
	r, err := f.CreateTraces(t.Context(), set, cfg, p.sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// post sends a body by HTTP. URL's host is the name of a path.
func (p *peers) post(t *testing.T, url, media, encoding string, body []byte) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	res, err := p.client.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// raw is a codec of messages that are already encoded.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }
func (p *peers) dial(t *testing.T, name string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix://"+p.paths[name], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const (
	otlpExport   = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	jaegerExport = "/jaeger.api_v2.CollectorService/PostSpans"
)

func call(t *testing.T, c *grpc.ClientConn, method string, body []byte, options ...grpc.CallOption) error {
	return c.Invoke(t.Context(), method, body, new([]byte), append(options, grpc.ForceCodecV2(raw{}))...)
}

func gz(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// refusedFor is the counter, by reason.
func (p *peers) refusedFor(t *testing.T, reason string) (n int64) {
	t.Helper()
	m, err := p.telemetry.GetMetric("tare_receiver_refused_requests")
	if err != nil {
		return 0
	}
	for _, d := range m.Data.(metricdata.Sum[int64]).DataPoints {
		if v, _ := d.Attributes.Value("reason"); v.AsString() == reason {
			n += d.Value
		}
	}
	return n
}

var goodSpan = wrap([]byte("\x0a\x10aaaaaaaaaaaaaaaa\x12\x08bbbbbbbb\x2a\x04name"), 1, 2, 2)

// Without the check a stack overflows, which ends the process and with it this test.
func TestNestedRequestsAreRefused(t *testing.T) {
	p := start(t)
	deep := nested(290_000) // as much as fits into a message of gRPC
	deepJSON := nestedJSON(9000)
	structs := append(bytes.Repeat([]byte{tStruct, 0, 1}, 200_000), make([]byte, 200_001)...)
	zipkinList := append([]byte{tStruct, 0, 0, 0, 1}, structs...)
	refused := int64(0)
	for _, c := range []struct {
		url, media string
		body       []byte
	}{
		{"otlp.http/v1/traces", protobuf, nested(300_000)},
		{"otlp.http/v1/traces", "application/x-protobuf; charset=utf-8", deep},
		{"otlp.http/v1/traces", json, deepJSON},
		{"zipkin/api/v2/spans", json, bytes.Repeat([]byte("["), 200_000)},
		{"zipkin/api/v1/spans", json, bytes.Repeat([]byte(`{"a":`), 200_000)},
		{"zipkin/api/v1/spans", thrift1, zipkinList},
		{"jaeger.http/api/traces", thrift1, structs},
		{"jaeger.http/api/traces", thrift2, structs},
	} {
		for _, encoding := range []string{"", "gzip"} {
			body := c.body
			if encoding != "" {
				body = gz(body)
			}
			code, text := p.post(t, c.url, c.media, encoding, body)
			if code != http.StatusBadRequest || !strings.Contains(text, "refused before decoding") && !strings.Contains(text, "grows more than") {
				t.Errorf("%s %s %s: %d %.100q", c.url, c.media, encoding, code, text)
			}
			refused++
		}
	}
	for name, method := range map[string]string{"otlp.grpc": otlpExport, "jaeger.grpc": jaegerExport} {
		body := deep
		if name == "jaeger.grpc" {
			body = wrap(repeated(8, 1_500_000), 1, 1) // its messages do not nest: too many of them
		}
		if err := call(t, p.dial(t, name), method, body); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "refused before decoding") {
			t.Errorf("%s: %v", name, err)
		}
		refused++
	}
	if n := p.refusedFor(t, "depth") + p.refusedFor(t, "ratio") + p.refusedFor(t, "objects"); n != refused {
		t.Errorf("%d of %d refusals are counted", n, refused)
	}
	p.accepts(t)
}

// accepts sends a span to each receiver.
func (p *peers) accepts(t *testing.T) {
	t.Helper()
	before := p.sink.SpanCount()
	const zipkinSpan = `[{"traceId":"000000000000000000000000000000aa","id":"00000000000000aa","name":"n","timestamp":1,"duration":1}]`
	const otlpJSON = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"000000000000000000000000000000aa","spanId":"00000000000000aa","name":"n"}]}]}]}`
	// A batch with a process {service} and a span of the required fields.
	id := binary.BigEndian.AppendUint64(nil, 7)
	field := func(kind, n byte, value []byte) []byte { return append([]byte{kind, 0, n}, value...) }
	span := bytes.Join([][]byte{field(tI64, 1, id), field(tI64, 2, id), field(tI64, 3, id), field(tI64, 4, id),
		field(tString, 5, []byte("\x00\x00\x00\x01n")), field(tI32, 7, id[4:]), field(tI64, 8, id), field(tI64, 9, id), {tStop}}, nil)
	batch := bytes.Join([][]byte{field(tStruct, 1, []byte("\x0b\x00\x01\x00\x00\x00\x01s\x00")), field(tList, 2, append([]byte{tStruct, 0, 0, 0, 1}, span...)), {tStop}}, nil)
	sent := 0
	for _, c := range []struct {
		url, media, encoding string
		body                 []byte
	}{
		{"otlp.http/v1/traces", protobuf, "", goodSpan},
		{"otlp.http/v1/traces", protobuf, "gzip", gz(goodSpan)},
		{"otlp.http/v1/traces", json, "", []byte(otlpJSON)},
		{"zipkin/api/v2/spans", json, "", []byte(zipkinSpan)},
		{"zipkin/api/v2/spans", "application/json; charset=utf-8", "gzip", gz([]byte(zipkinSpan))},
		{"jaeger.http/api/traces", thrift1, "", batch},
	} {
		if code, text := p.post(t, c.url, c.media, c.encoding, c.body); code/100 != 2 {
			t.Errorf("%s %s: %d %q", c.url, c.media, code, text)
		}
		sent++
	}
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}, {grpc.UseCompressor("zstd")}, {grpc.UseCompressor("snappy")}} {
		if err := call(t, p.dial(t, "otlp.grpc"), otlpExport, goodSpan, options...); err != nil {
			t.Error(err)
		}
		sent++
	}
	if n := p.sink.SpanCount() - before; n != sent {
		t.Errorf("%d of %d spans came through", n, sent)
	}
	// A handler gives back after its client has been answered.
	for wait := time.Now().Add(time.Minute); shared.used.Load() != 0 && time.Now().Before(wait); time.Sleep(time.Millisecond) {
	}
	if n := shared.used.Load(); n != 0 {
		t.Errorf("%d bytes of the budget are not given back", n)
	}
}

// A hundred small requests at once, which were 1.5 GB each: memory stays within the budget.
func TestAmplifiedRequestsAreRefused(t *testing.T) {
	p := start(t)
	spans := wrap(repeated(2, 3_000_000), 1, 2)
	bomb := gz(spans)
	small := gz(wrap(repeated(2, 1_000_000), 1, 2))
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(1<<26))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write(spans)
	_ = z.Close()
	list := []byte{tList, 0, 2, tStruct, 0x05, 0xff, 0xff, 0xff} // 100 million spans, as its head says
	// A frame of one byte whose head asks for a window of 512 MiB.
	wide := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 19 << 3, 9, 0, 0, 0}
	before := inUse()
	var most int64
	stop := make(chan struct{})
	var watching, sending sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, int64(m.HeapInuse))
			}
		}
	})
	conn := p.dial(t, "otlp.grpc")
	for i := range 100 {
		sending.Go(func() {
			switch i % 7 {
			case 0:
				if code, _ := p.post(t, "otlp.http/v1/traces", protobuf, "gzip", bomb); code != 400 && code != 503 {
					t.Errorf("gzip: %d", code)
				}
			case 1:
				if code, _ := p.post(t, "otlp.http/v1/traces", protobuf, "zstd", packed.Bytes()); code != 400 && code != 503 {
					t.Errorf("zstd: %d", code)
				}
			case 2:
				if code, _ := p.post(t, "otlp.http/v1/traces", protobuf, "gzip", small); code != 400 && code != 503 {
					t.Errorf("small: %d", code)
				}
			case 3:
				if code, _ := p.post(t, "jaeger.http/api/traces", thrift1, "", list); code != 400 {
					t.Errorf("thrift: %d", code)
				}
			case 5:
				if code, _ := p.post(t, "otlp.http/v1/traces", protobuf, "zstd", wide); code != 400 {
					t.Errorf("zstd's window: %d", code)
				}
			case 6: // as gRPC decompresses it
				r, err := encoding.GetCompressor("zstd").Decompress(bytes.NewReader(wide))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadAll(r); err == nil {
					t.Error("a window of 512 MiB was allocated")
				}
				_ = r.(io.Closer).Close()
			case 4:
				if c := status.Code(call(t, conn, otlpExport, wrap(repeated(2, 1_900_000), 1, 2), grpc.UseCompressor("gzip"))); c != codes.InvalidArgument && c != codes.Unavailable {
					t.Errorf("gRPC: %v", c)
				}
			}
		})
	}
	sending.Wait()
	close(stop)
	watching.Wait()
	// What the test itself holds is in before; garbage may double what is in use.
	if limit := before + 3*shared.limit(); most > limit {
		t.Errorf("%d MiB in use, limit %d", most>>20, limit>>20)
	}
	t.Logf("most %d MiB, before %d MiB, budget %d MiB", most>>20, before>>20, shared.limit()>>20)
	p.accepts(t)
}

// What a page of another site can make a browser send.
func TestPagesOfOtherSites(t *testing.T) {
	for _, c := range []struct {
		name, host, media, origin, fetch string
		status                           int
	}{
		{"a program", "localhost:4318", json, "", "", 200},
		{"a program, by address", "127.0.0.1:4318", json, "", "", 200},
		{"a form", "localhost:4318", "text/plain", "", "", 415},
		{"without a type", "localhost:4318", "", "", "", 415},
		{"a page", "localhost:4318", json, "https://evil.example", "", 403},
		{"a page that was allowed", "localhost:4318", json, "https://shop.example", "cross-site", 200},
		{"one like it", "localhost:4318", json, "https://shop.example.evil.example", "", 403},
		{"a page in a sandbox", "localhost:4318", json, "null", "", 403},
		{"an image", "localhost:4318", json, "", "cross-site", 403},
		{"DNS rebinding", "evil.example:4318", json, "http://evil.example:4318", "same-origin", 403},
	} {
		config := confighttp.NewDefaultServerConfig()
		config.NetAddr.Endpoint = "127.0.0.1:4318"
		cors := confighttp.NewDefaultCORSConfig()
		cors.AllowedOrigins = []string{"https://*shop.example"}
		config.CORS = configoptional.Some(cors)
		s := newHTTP(&config, func(_, media string) check {
			if media == json {
				return byNames(nil)
			}
			return nil
		})
		refusals, err := newRefusals(componenttest.NewNopTelemetrySettings(), kindID, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		s.refusals, s.next = refusals, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		r := httptest.NewRequest(http.MethodPost, "/v1/traces", strings.NewReader("[]"))
		r.Host = c.host
		for key, value := range map[string]string{"Content-Type": c.media, "Origin": c.origin, "Sec-Fetch-Site": c.fetch} {
			if value != "" {
				r.Header.Set(key, value)
			}
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
}

var kindID = component.NewID(kind)

// A datagram of 20 bytes makes jaegerreceiver's decoder allocate 768 MiB.
func TestJaegerByUDPIsRefused(t *testing.T) {
	f := Receivers(jaegerreceiver.NewFactory(), Jaeger, func(l *zap.Logger) *zap.Logger { return l })
	for _, protocols := range []jaegerreceiver.Protocols{
		{ThriftCompactUDP: configoptional.Some(jaegerreceiver.ProtocolUDP{Endpoint: "127.0.0.1:6831"})},
		{ThriftBinaryUDP: configoptional.Some(jaegerreceiver.ProtocolUDP{Endpoint: "127.0.0.1:6832"})},
	} {
		cfg := f.CreateDefaultConfig().(*jaegerreceiver.Config)
		cfg.Protocols = protocols
		_, err := f.CreateTraces(t.Context(), receivertest.NewNopSettings(f.Type()), cfg, new(consumertest.TracesSink))
		if err == nil || !strings.Contains(err.Error(), "thrift_http") {
			t.Errorf("%v", err)
		}
	}
}

// Buffers are used again: every body of many at once arrives as it was sent, and stays so.
func TestBodiesStayApart(t *testing.T) {
	p := start(t)
	const senders, requests = 8, 40
	message := func(s, i int) (name string, spans int) {
		return fmt.Sprintf("sender-%d-request-%02d", s, i), 1 + (s*requests+i)*7%300
	}
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range requests {
				name, spans := message(s, i)
				url, media, encoding := "otlp.http/v1/traces", protobuf, ""
				body := wrap(bytes.Repeat(wrap([]byte("\x0a\x10aaaaaaaaaaaaaaaa\x12\x08bbbbbbbb\x2a\x13"+name), 2), spans), 1, 2)
				if i%4 > 1 {
					url, media = "zipkin/api/v2/spans", json
					span := `{"traceId":"0123456789abcdef","id":"0123456789abcdef","name":"` + name + `"}`
					body = []byte("[" + strings.Repeat(span+",", spans-1) + span + "]")
				}
				if i%2 > 0 {
					encoding, body = "gzip", gz(body)
				}
				if code, text := p.post(t, url, media, encoding, body); code/100 != 2 {
					t.Errorf("%s: %d %.100q", name, code, text)
				}
			}
		})
	}
	wg.Wait()
	got := map[string]int{}
	for _, batch := range p.sink.AllTraces() {
		for _, r := range batch.ResourceSpans().All() {
			for _, s := range r.ScopeSpans().All() {
				for _, sp := range s.Spans().All() {
					got[sp.Name()]++
				}
			}
		}
	}
	for s := range senders {
		for i := range requests {
			if name, spans := message(s, i); got[name] != spans {
				t.Errorf("%d spans of %s, want %d", got[name], name, spans)
			}
		}
	}
	if len(got) != senders*requests {
		t.Errorf("%d names of spans, want %d", len(got), senders*requests)
	}
}
