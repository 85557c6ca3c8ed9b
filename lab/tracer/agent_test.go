package tracer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestWhatAnAgentReported(t *testing.T) {
	reg := prometheus.NewRegistry()
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	a := &agent{base: server.URL, client: server.Client()}
	if _, err := a.Reported(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no tare_export_bytes_total") {
		t.Errorf("without the counter: %v", err)
	}
	sent := prometheus.NewCounter(prometheus.CounterOpts{Name: "tare_export_bytes_total", Help: "x"})
	reg.MustRegister(sent)
	sent.Add(77)
	if n, err := a.Reported(t.Context()); err != nil || n != 77 {
		t.Errorf("%v bytes, %v", n, err)
	}
}
