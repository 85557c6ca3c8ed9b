package otlphttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// After Export the caller reuses the bytes at once. Nothing may read them any
// more, even if the server has read only the start of a large request: the race
// detector watches the slice, the server what arrives.
func TestNothingReadsTheRequestAfterExport(t *testing.T) {
	for _, compression := range []otlphttp.Compression{otlphttp.NoCompression, otlphttp.GzipCompression} {
		began, reused, read := make(chan struct{}), make(chan struct{}), make(chan []byte)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, 1000))
			close(began)
			<-reused
			rest, _ := io.ReadAll(r.Body)
			read <- rest
		}))
		e := newExporter(t, otlphttp.WithEndpointURL(server.URL), otlphttp.WithCompression(compression))
		request := noise(8 << 20)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		if _, err := e.Export(ctx, request, 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want the cancellation", err)
		}
		for i := range request {
			request[i] = 0xff
		}
		close(reused)
		if rest := <-read; compression == otlphttp.NoCompression && bytes.IndexByte(rest, 0xff) >= 0 {
			t.Error("bytes that were written after Export has returned were sent")
		}
		server.Close()
	}
}

// noise has no 0xff and does not compress well.
func noise(n int) []byte {
	out := make([]byte, n)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x>>24) & 0x7f
	}
	return out
}

// The same for a server that answers before it has read the request.
func TestEarlyAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	defer server.Close()
	e := newExporter(t, otlphttp.WithEndpointURL(server.URL))
	request := noise(8 << 20)
	for range 5 {
		if _, err := e.Export(t.Context(), request, 1); err == nil {
			t.Fatal("413 is no error")
		}
		for i := range request {
			request[i] = 0x55
		}
	}
}

func TestExportAfterShutdown(t *testing.T) {
	c := newCollector(t, nil)
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL))
	for range 2 {
		require.NoError(t, e.Shutdown(t.Context()))
	}
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); !errors.Is(err, otlphttp.ErrShutdown) || len(c.requests()) != 0 {
		t.Errorf("error %v, %d requests", err, len(c.requests()))
	}
}

func TestShutdownInTheMiddleOfARetry(t *testing.T) {
	asked := make(chan struct{}, 1)
	c := newCollector(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
		asked <- struct{}{}
	})
	patient := otlphttp.RetryConfig{Enabled: true} // no limit of elapsed time
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(patient))
	exported := make(chan error, 1)
	go func() {
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		exported <- err
	}()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, e.Shutdown(ctx), context.DeadlineExceeded, "Shutdown")
	if err := <-exported; !errors.Is(err, otlphttp.ErrShutdown) {
		t.Errorf("Export: %v, want ErrShutdown", err)
	}
}

func TestShutdownLetsAnExportFinish(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	c := newCollector(t, func(int, http.ResponseWriter, *http.Request) {
		close(arrived)
		<-answer
	})
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL))
	exported, shut := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		exported <- err
	}()
	<-arrived
	go func() { shut <- e.Shutdown(t.Context()) }()
	close(answer)
	assert.NoError(t, errors.Join(<-exported, <-shut))
}
