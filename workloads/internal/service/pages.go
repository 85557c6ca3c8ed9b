package service

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry has the process' and the Go runtime's metrics.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(),
	)
	return reg
}

// Pages adds /config, /health, /metrics and /debug/pprof/ to a mux. Config is
// asked for every answer; /health shows the part of it that says whether and
// how requests are traced. The profiler runs while a profile is asked for.
func Pages(mux *http.ServeMux, reg *prometheus.Registry, config func() map[string]any) {
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, config())
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		all := config()
		health := map[string]any{"status": "ok"}
		for _, key := range []string{"service", "tracing_enabled", "sampling_strategy", "sampling_rate"} {
			health[key] = all[key]
		}
		WriteJSON(w, http.StatusOK, health)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

// WriteJSON answers with a value and a newline.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client may be gone
}

// WriteError answers with {"error": message}.
func WriteError(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, map[string]string{"error": message})
}
