package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/workloads/internal/service"
)

// endpoint is one kind of work. What it does depends on nothing but the
// request and the count of requests.
type endpoint struct {
	method, path string
	kind         string // of work, as its span's attribute app.operation has it
	http.HandlerFunc
	// fails answers in its place where an error is injected; nil: at once, without work.
	fails http.HandlerFunc
}

func endpoints(s settings) []endpoint {
	// The tracer of the provider that is in force: tracing has been started.
	tracer := otel.Tracer("github.com/tare-trace/tare/workloads/thesis")
	return []endpoint{
		{http.MethodGet, "/api/basic", "computation", basic, nil},
		{http.MethodGet, "/api/large-payload", "payload", largePayload(s.payload), nil},
		{http.MethodPost, "/api/large-payload", "payload", receivePayload, nil},
		{http.MethodGet, "/api/long-running", "delay", longRunning(s.longMin, s.longMax), nil},
		{http.MethodGet, "/api/deep-spans", "nesting", deepSpans(tracer, s.deepDelay), nil},
		{http.MethodGet, "/api/cpu-intensive", "cpu", cpuIntensive(s.primes), nil},
		{http.MethodPost, "/api/account", "account", account(tracer, http.StatusOK), account(tracer, http.StatusInternalServerError)},
	}
}

// annotate sets attributes on the span of the request, if there is one that
// records.
func annotate(ctx context.Context, attributes ...attribute.KeyValue) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attributes...)
	}
}

// squares is the sum of the squares from 0 to 999.
func squares() int {
	sum := 0
	for i := range 1000 {
		sum += i * i
	}
	return sum
}

func basic(w http.ResponseWriter, r *http.Request) {
	sum := squares()
	annotate(r.Context(), attribute.Int("app.result", sum))
	service.WriteJSON(w, http.StatusOK, map[string]any{"endpoint": "basic", "sum_of_squares": sum})
}

// largePayload answers with so many bytes of text, made anew for every
// request: what is measured is that memory and the network, not a cache.
func largePayload(unset int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		size, ok := integer(w, r, "size", unset, 0, maxPayload)
		if !ok {
			return
		}
		annotate(r.Context(), attribute.Int("app.payload.size", size))
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(payload(size)) // the client may be gone
	}
}

func payload(size int) []byte {
	const line = "The quick brown fox jumps over the lazy dog.\n"
	return bytes.Repeat([]byte(line), size/len(line)+1)[:size]
}

// receivePayload reads all of the request's body into memory, as a service that
// decodes it would, and answers with its size.
func receivePayload(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxPayload {
		body.Grow(int(n) + bytes.MinRead)
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxPayload))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		service.WriteError(w, status, fmt.Sprintf("body: %v: it may have up to %d bytes", err, maxPayload))
		return
	}
	annotate(r.Context(), attribute.Int("app.payload.size", body.Len()))
	service.WriteJSON(w, http.StatusOK, map[string]any{"endpoint": "large-payload", "received": body.Len()})
}

// longRunning takes min, three steps between, and max, one after the other.
func longRunning(least, most time.Duration) http.HandlerFunc {
	const steps = 5
	var count atomic.Uint64
	return func(w http.ResponseWriter, r *http.Request) {
		var delay time.Duration
		if v := r.URL.Query().Get("seconds"); v != "" {
			seconds, err := strconv.ParseFloat(v, 64)
			if err != nil || !(seconds >= 0 && seconds <= maxSeconds) {
				service.WriteError(w, http.StatusBadRequest,
					fmt.Sprintf("seconds: %q is not a number from 0 to %d", v, maxSeconds))
				return
			}
			delay = time.Duration(seconds * float64(time.Second))
		} else {
			step := (count.Add(1) - 1) % steps
			delay = least + (most-least)*time.Duration(step)/(steps-1)
		}
		annotate(r.Context(), attribute.Int64("app.delay.ms", delay.Milliseconds()))
		if !pause(r.Context(), delay) {
			return // nobody is there to be answered
		}
		service.WriteJSON(w, http.StatusOK, map[string]any{"endpoint": "long-running", "seconds": delay.Seconds()})
	}
}

// pause reports whether the time has passed; the request may end before.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// levels of spans below the request's own.
const levels = 5

// deepSpans nests five spans, each with a little work and a delay of its own.
func deepSpans(tracer trace.Tracer, delay time.Duration) http.HandlerFunc {
	var descend func(ctx context.Context, level int) int
	descend = func(ctx context.Context, level int) int {
		ctx, span := tracer.Start(ctx, "level-"+strconv.Itoa(level))
		defer span.End()
		if span.IsRecording() {
			span.SetAttributes(attribute.Int("app.span.level", level))
		}
		sum := squares()
		pause(ctx, delay)
		if level < levels {
			sum += descend(ctx, level+1)
		}
		return sum
	}
	return func(w http.ResponseWriter, r *http.Request) {
		sum := descend(r.Context(), 1)
		annotate(r.Context(), attribute.Int("app.span.levels", levels))
		service.WriteJSON(w, http.StatusOK, map[string]any{"endpoint": "deep-spans", "levels": levels, "sum": sum})
	}
}

// cpuIntensive counts the primes below a limit by trial division.
func cpuIntensive(unset int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit, ok := integer(w, r, "limit", unset, 1, maxPrimes)
		if !ok {
			return
		}
		n := primes(limit)
		annotate(r.Context(), attribute.Int("app.primes.limit", limit), attribute.Int("app.result", n))
		service.WriteJSON(w, http.StatusOK, map[string]any{"endpoint": "cpu-intensive", "limit": limit, "primes": n})
	}
}

func primes(limit int) int {
	count := 0
next:
	for n := 2; n < limit; n++ {
		for d := 2; d*d <= n; d++ {
			if n%d == 0 {
				continue next
			}
		}
		count++
	}
	return count
}

// integer reads a parameter, or answers with 400.
func integer(w http.ResponseWriter, r *http.Request, name string, unset, least, most int) (int, bool) {
	if r.URL.RawQuery == "" {
		return unset, true
	}
	v := r.URL.Query().Get(name)
	if v == "" {
		return unset, true
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		service.WriteError(w, http.StatusBadRequest,
			fmt.Sprintf("%s: %q is not an integer from %d to %d", name, v, least, most))
		return 0, false
	}
	return n, true
}
