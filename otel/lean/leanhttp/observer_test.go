package leanhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/leanhttp"
)

func TestObserver(t *testing.T) {
	sampled, spans := provider(t, sdktrace.AlwaysSample())
	unsampled, none := provider(t, sdktrace.NeverSample())
	for name, tp := range map[string]trace.TracerProvider{
		"sampled": sampled, "unsampled": unsampled,
		"SDK": sdktrace.NewTracerProvider(), "SDK unsampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /ok/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "x") })
			mux.HandleFunc("GET /bad", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
			mux.HandleFunc("GET /panic", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("x") })
			var got []string
			h := leanhttp.NewHandler(mux, "", leanhttp.WithTracerProvider(tp),
				leanhttp.WithFilter(func(r *http.Request) bool { return r.URL.Path != "/filtered" }),
				leanhttp.WithObserver(func(r *http.Request, status int, d time.Duration) {
					got = append(got, fmt.Sprint(r.Pattern, " ", status, " ", d >= 0 && d < time.Hour))
				}))
			for _, path := range []string{"/ok/1", "/bad", "/panic", "/nowhere", "/filtered"} {
				func() {
					defer func() { _ = recover() }()
					h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
				}()
			}
			r := httptest.NewRequest("GET", "/bad", nil)
			h.ServeHTTP(httptest.NewRecorder(), r.WithContext(leanhttp.ContextWithStartTime(r.Context(), time.Now().Add(-2*time.Hour))))
			want := "[GET /ok/{id} 200 true GET /bad 503 true GET /panic 500 true  404 true GET /bad 503 false]"
			assert.Equal(t, want, fmt.Sprint(got))
		})
	}
	if len(spans()) != 5 || len(none()) != 0 {
		t.Errorf("%d spans of the sampled, %d of the others", len(spans()), len(none()))
	}
}
