package service

import (
	"net/http"
	"time"

	"github.com/tare-trace/tare/otel/adaptive"
)

// Recorder keeps the status of an answer.
type Recorder struct {
	http.ResponseWriter
	Status int // 200 until something else is written
}

// Record wraps a writer.
func Record(w http.ResponseWriter) Recorder { return Recorder{w, http.StatusOK} }

// WriteHeader keeps the status.
func (r *Recorder) WriteHeader(status int) {
	r.Status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// observed lets a sampler learn from every request, sampled or not.
func observed(next http.Handler, route string, s *adaptive.Sampler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		rec := Record(w)
		next.ServeHTTP(&rec, r)
		observe(s, route, rec.Status, time.Since(begin))
	})
}

func observe(s *adaptive.Sampler, route string, status int, took time.Duration) {
	s.Observe(adaptive.Observation{Route: route, Failed: status >= http.StatusInternalServerError, Duration: took})
}
