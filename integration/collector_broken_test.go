package integration

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/testkit"
)

// What is not OTLP is refused with a fitting status, and the next request is
// served.
func TestCollectorRefusesBrokenOTLP(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	grpcAddr, httpAddr := loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t))
	d := collect(t, forwarding(grpcAddr, httpAddr, sink.address))

	good, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(someTraces(1, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	// 512 MiB of zeros in half a MiB: the receiver takes 20 MiB.
	bomb := gzipped(t, io.LimitReader(zeros{}, 512<<20))
	for _, c := range []struct {
		name           string
		method, path   string
		kind, encoding string
		body           []byte
		want           int
	}{
		{"not protobuf", "POST", "/v1/traces", "application/x-protobuf", "", []byte("\xff\xff\xff\xff garbage"), http.StatusBadRequest},
		{"cut short", "POST", "/v1/traces", "application/x-protobuf", "", good[:len(good)/2], http.StatusBadRequest},
		{"not JSON", "POST", "/v1/traces", "application/json", "", []byte("{"), http.StatusBadRequest},
		{"wrong type", "POST", "/v1/traces", "text/plain", "", good, http.StatusUnsupportedMediaType},
		{"no type", "POST", "/v1/traces", "", "", good, http.StatusUnsupportedMediaType},
		{"wrong method", "GET", "/v1/traces", "", "", nil, http.StatusMethodNotAllowed},
		{"wrong path", "POST", "/v2/traces", "application/x-protobuf", "", good, http.StatusNotFound},
		{"not gzip", "POST", "/v1/traces", "application/x-protobuf", "gzip", good, http.StatusBadRequest},
		{"gzip cut short", "POST", "/v1/traces", "application/x-protobuf", "gzip", gzipped(t, bytes.NewReader(good))[:40], http.StatusBadRequest},
		{"unknown encoding", "POST", "/v1/traces", "application/x-protobuf", "sdch", good, http.StatusBadRequest},
		{"gzip bomb", "POST", "/v1/traces", "application/x-protobuf", "gzip", bomb, http.StatusBadRequest},
		{"well-formed", "POST", "/v1/traces", "application/x-protobuf", "", good, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+httpAddr+c.path, bytes.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.kind != "" {
				req.Header.Set("Content-Type", c.kind)
			}
			if c.encoding != "" {
				req.Header.Set("Content-Encoding", c.encoding)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != c.want {
				text, _ := io.ReadAll(resp.Body)
				t.Errorf("%s, want %d\n%s", resp.Status, c.want, text)
			}
		})
	}
	testkit.Until(t, deadline, "the well-formed one arrived", func() bool { return sink.count() == 3 })
	if rss := d.metric("otelcol_process_memory_rss"); rss == 0 || rss > 400<<20 {
		t.Errorf("%.0f MiB resident after a gzip bomb", rss/(1<<20))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func gzipped(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, r); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
