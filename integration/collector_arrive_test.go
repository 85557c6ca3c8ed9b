package integration

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tare-trace/tare/internal/testkit"
)

// inFields encodes content in messages of protobuf, the fields from the outermost on.
func inFields(content []byte, fields ...protowire.Number) []byte {
	for _, f := range slices.Backward(fields) {
		content = protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), content)
	}
	return content
}

// nestedSpans is a request of OTLP whose span has an attribute of n arrays in each other.
func nestedSpans(n int) []byte {
	b := make([]byte, 12*n+64)
	at := len(b)
	for i := range 2*n + 5 {
		f := []protowire.Number{1, 5}[i%2]
		if i >= 2*n {
			f = []protowire.Number{2, 9, 2, 2, 1}[i-2*n]
		}
		head := protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.BytesType), uint64(len(b)-at))
		at -= len(head)
		copy(b[at:], head)
	}
	return b[at:]
}

// encoded is a codec of messages that are encoded already.
type encoded struct{}

func (encoded) Name() string { return "proto" }
func (encoded) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (encoded) Unmarshal(mem.BufferSlice, any) error { return nil }

// Requests that are nested or compressed so that decoding them would take a process's stack
// or memory: a hundred at once are refused, others are served meanwhile, and memory stays
// within the limit.
func TestCollectorRefusesWhatItCannotDecode(t *testing.T) {
	t.Parallel()
	const limit = 512 // MiB
	s := storeIn(t, t.TempDir(), "--set", "processors.memory_limiter.limit_mib="+itoa(limit),
		"--set", "processors.memory_limiter.spike_limit_mib="+itoa(limit/4))
	conn, err := grpc.NewClient(s.otlp, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	post := func(media, encoding string, body []byte) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.http+"/v1/traces", bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set("Content-Type", media)
		r.Header.Set("Content-Encoding", encoding)
		res, err := noProxy.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer func() { _ = res.Body.Close() }()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	invoke := func(body []byte) error {
		return conn.Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", body, new([]byte),
			grpc.ForceCodecV2(encoded{}), grpc.UseCompressor("gzip"))
	}

	deep := nestedSpans(290_000)
	if code, text := post("application/x-protobuf", "", deep); code != http.StatusBadRequest || !strings.Contains(text, "nested deeper") {
		t.Errorf("nested protobuf: %d %q", code, text)
	}
	if err := invoke(deep); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("nested, by gRPC: %v", err)
	}
	if n := s.labelled("tare_receiver_refused_requests", `reason="depth"`) + s.labelled("tare_receiver_refused_requests_total", `reason="depth"`); n != 2 {
		t.Errorf("%v nested requests are counted", n)
	}

	spans := bytes.Repeat(inFields(nil, 2), 10_000_000)
	bomb := gzipped(t, bytes.NewReader(inFields(spans, 1, 2)))
	t.Logf("a bomb has %d bytes", len(bomb))
	fits := inFields(spans[:3_800_000], 1, 2) // by gRPC's limit of 4 MiB
	idle := peak(t, s.Cmd.Process.Pid)
	var bombs sync.WaitGroup
	for i := range 100 {
		bombs.Go(func() {
			if i%2 == 0 {
				if code, text := post("application/x-protobuf", "gzip", bomb); code != http.StatusBadRequest && code != http.StatusServiceUnavailable {
					t.Errorf("a bomb: %d %q", code, text)
				}
			} else if err := invoke(fits); status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.Unavailable {
				t.Errorf("a bomb, by gRPC: %v", err)
			}
		})
	}
	const traces, perTrace = 100, 5
	sender := dialOTLP(t, s.otlp, nil)
	for i := range uint64(traces) { // as SDKs do, which send again what is refused for the moment
		testkit.Until(t, deadline, "a trace is taken", func() bool { return export(t.Context(), sender, someTraces(7+i, 1, perTrace)) == nil })
	}
	bombs.Wait()
	s.awaitSpans(t, traces*perTrace)
	most := peak(t, s.Cmd.Process.Pid)
	t.Logf("%.0f MiB at most, %.0f before; %d were refused", most, idle, int(s.metric("tare_receiver_refused_requests")+s.metric("tare_receiver_refused_requests_total")))
	if most > 1.2*limit {
		t.Errorf("%.0f MiB at most, limit %d", most, limit)
	}
}

// Clients that do not finish what they began are disconnected, by every listener.
func TestCollectorDisconnectsSlowClients(t *testing.T) {
	t.Parallel()
	health := loopback(testkit.FreePort(t))
	s := storeIn(t, t.TempDir(), "--set", "receivers.otlp.protocols.http.read_timeout=12s", "--set", "extensions.health_check.endpoint="+health)
	var all sync.WaitGroup
	for _, c := range []struct{ name, address, begin string }{
		{"OTLP, no header", s.http, "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n"},
		{"OTLP, no body", s.http, "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nab"},
		{"gRPC, nothing", s.otlp, ""},
		{"gRPC, half a preface", s.otlp, "PRI * HTTP/2.0"},
		{"the page", s.page, "GET / HTTP/1.1\r\nHost: localhost\r\n"},
		{"metrics", s.metrics, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"},
		{"health", health, "GET / HTTP/1.1\r\nHost: localhost\r\n"},
	} {
		all.Go(func() {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", c.address)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(testkit.Patient(2 * time.Minute))); err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(conn, c.begin); err != nil {
				t.Error(err)
			}
			if answer, err := io.ReadAll(conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: still connected, after %q", c.name, answer)
			}
		})
	}
	all.Wait()
}

// Passwords that stand in addresses are not printed.
func TestCollectorPrintsNoPasswords(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `receivers: {otlp: {protocols: {grpc: }}}
exporters: {otlp_http: {endpoint: "http://anna:geheim@127.0.0.1:1"}, clickhouse: {endpoint: "tcp://anna:geheim@127.0.0.1:1?password=geheim"}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_http, clickhouse]}}}
`)
	for _, args := range [][]string{{"print-config"}, {"print-config", "--full"}, {"validate"}} {
		out, _ := exec.CommandContext(t.Context(), tare, append(append([]string{"collector"}, args...), "--config", config)...).CombinedOutput()
		if strings.Contains(string(out), "geheim") || args[0] == "print-config" && !strings.Contains(string(out), "anna:***@127.0.0.1:1") {
			t.Errorf("%v prints\n%s", args, out)
		}
	}
}
