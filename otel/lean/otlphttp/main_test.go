package otlphttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// The contract of package lean, which this package implements without it.
var _ interface {
	Export(ctx context.Context, request []byte, spans int) (rejected int, err error)
	Shutdown(ctx context.Context) error
} = (*otlphttp.Exporter)(nil)

func TestMain(m *testing.M) {
	otlptest.ClearEnvironment()
	goleak.VerifyTestMain(m)
}

// received is a request as a collector sees it.
type received struct {
	method, uri, host string
	header            http.Header
	request           *coltracepb.ExportTraceServiceRequest
}

// collector is a real OTLP/HTTP server. answer (default: success) is called
// with the number of the request, from 1.
type collector struct {
	*httptest.Server
	answer func(n int, w http.ResponseWriter, r *http.Request)

	mu   sync.Mutex
	got  []received
	errs []error
}

func newCollector(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *collector {
	c := newUnstarted(t, answer)
	c.Start()
	return c
}

func newUnstarted(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ErrorLog = nil
	t.Cleanup(func() {
		c.Close()
		for _, err := range c.errs {
			t.Errorf("the collector cannot read a request: %v", err)
		}
	})
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := read(r)
	c.mu.Lock()
	if err != nil {
		c.errs = append(c.errs, err)
	}
	c.got = append(c.got, received{r.Method, r.RequestURI, r.Host, r.Header, request})
	n := len(c.got)
	c.mu.Unlock()
	if c.answer != nil {
		c.answer(n, w, r)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(r *http.Request) (*coltracepb.ExportTraceServiceRequest, error) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = z
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	request := &coltracepb.ExportTraceServiceRequest{}
	return request, proto.Unmarshal(data, request)
}

func (c *collector) requests() []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]received(nil), c.got...)
}

// quick retries at once, for a limited time.
var quick = otlphttp.RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 5 * time.Millisecond, MaxElapsedTime: 10 * time.Second}

func newExporter(t testing.TB, opts ...otlphttp.Option) *otlphttp.Exporter {
	t.Helper()
	e, err := otlphttp.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Shutdown(context.Background())) })
	return e
}

// handled collects what goes to OpenTelemetry's error handler during a test.
func handled(t *testing.T) func() string {
	t.Helper()
	var mu sync.Mutex
	var text bytes.Buffer
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		text.WriteString(err.Error())
	}))
	t.Cleanup(func() {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { _, _ = io.WriteString(os.Stderr, err.Error()+"\n") }))
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}
