package export

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// counted are deltas that count what was confirmed.
type counted struct {
	reads, sent atomic.Uint64
	err         error
}

func (c *counted) Read(time.Time) ([]byte, int, error) {
	c.reads.Add(1)
	return []byte("metrics"), 3, c.err
}
func (c *counted) Sent() { c.sent.Add(1) }

func TestMetrics(t *testing.T) {
	var asked atomic.Uint64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/base/v1/metrics" || !bytes.Equal(body, []byte("metrics")) {
			t.Errorf("%s %q", r.URL, body)
		}
		if asked.Add(1) == 1 {
			http.Error(w, "not now", http.StatusBadRequest)
		}
	}))
	defer receiver.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL+"/base")
	m, err := NewMetrics(Config{Protocol: HTTPProtobuf}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	d := &counted{}
	m.export(t.Context(), d)
	if d.sent.Load() != 0 || m.failed.Load() != 1 {
		t.Errorf("refused: %d confirmed, %d failed", d.sent.Load(), m.failed.Load())
	}
	m.export(t.Context(), d)
	if d.sent.Load() != 1 || m.points.Load() != 3 {
		t.Errorf("taken: %d confirmed, %d points", d.sent.Load(), m.points.Load())
	}
	d.err = errors.New("no such map")
	m.export(t.Context(), d)
	if d.sent.Load() != 1 || asked.Load() != 2 || m.failed.Load() != 2 {
		t.Errorf("unread: %d confirmed, %d requests, %d failed", d.sent.Load(), asked.Load(), m.failed.Load())
	}
	d.err = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Run(ctx, d) // what is left is sent at the end
	if d.sent.Load() != 2 || asked.Load() != 3 {
		t.Errorf("at the end: %d confirmed, %d requests", d.sent.Load(), asked.Load())
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestMetricsEndpoint(t *testing.T) {
	for _, c := range []struct {
		name, protocol string
		env            map[string]string
		want           string // "": refused
	}{
		{"default", HTTPProtobuf, nil, "http://localhost:4318/v1/metrics"},
		{"with spans", HTTPProtobuf, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:1/x/v1/traces"}, "http://a:1/x/v1/metrics"},
		{"apart", HTTPProtobuf, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:1/y", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://b:2/m"}, "http://b:2/m"},
		{"not known", HTTPProtobuf, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:1/y"}, ""},
		{"by gRPC", GRPC, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}, "http://a:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			m, err := NewMetrics(Config{Protocol: c.protocol}, time.Hour)
			if c.want == "" {
				if err == nil {
					t.Error("accepted")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := m.client.Endpoint(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if err := m.client.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
