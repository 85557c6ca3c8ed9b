package otlphttp_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

func TestTLS(t *testing.T) {
	certs := otlptest.NewCertificates(t)
	plain := newCollector(t, nil)
	start := func(config *tls.Config, http2 bool) *collector {
		c := newUnstarted(t, nil)
		c.TLS, c.EnableHTTP2 = config, http2
		c.StartTLS()
		return c
	}
	one, two, mutual := start(certs.Server.Clone(), false), start(certs.Server.Clone(), true), start(certs.Mutual(), true)
	const p = "OTEL_EXPORTER_OTLP_"
	authority := map[string]string{p + "CERTIFICATE": certs.Authority}
	both := map[string]string{p + "TRACES_CERTIFICATE": certs.Authority, p + "CLIENT_CERTIFICATE": certs.Client, p + "CLIENT_KEY": certs.ClientKey}
	for name, test := range map[string]struct {
		env  map[string]string
		to   *collector
		url  string
		opts []otlphttp.Option
		err  string
	}{
		"HTTP/1.1":              {env: authority, to: one},
		"HTTP/2":                {env: authority, to: two},
		"HTTP/2, gzip":          {env: authority, to: two, opts: []otlphttp.Option{otlphttp.WithCompression(otlphttp.GzipCompression)}},
		"mutual":                {env: both, to: mutual},
		"option":                {to: two, opts: []otlphttp.Option{otlphttp.WithTLSClientConfig(&tls.Config{RootCAs: certs.Pool})}},
		"unknown authority":     {to: two, err: "certificate"},
		"no client certificate": {env: authority, to: mutual, err: "certificate required"},
		"https to http":         {env: authority, to: plain, url: "https://" + plain.Listener.Addr().String(), err: "HTTP response to HTTPS client"},
		"http to https":         {to: two, url: "http://" + two.Listener.Addr().String(), err: "400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			url := test.url
			if url == "" {
				url = test.to.URL
			}
			before := len(test.to.requests())
			// What cannot pass by itself is not retried, or this would take
			// as long as quick allows, and give up for another reason.
			e := newExporter(t, append(test.opts, otlphttp.WithEndpointURL(url), otlphttp.WithRetry(quick))...)
			_, err := e.Export(t.Context(), otlptest.Request(t, 500), 500)
			arrived := test.to.requests()[before:]
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "gave up") || len(arrived) != 0 {
					t.Errorf("error %v, want %q at once", err, test.err)
				}
				return
			}
			if err != nil || len(arrived) != 1 || otlptest.Spans(arrived[0].request) != 500 {
				t.Errorf("error %v, %d requests", err, len(arrived))
			}
		})
	}
}

// Connections are kept: a handshake for each batch would cost more than it.
func TestKeepAlive(t *testing.T) {
	addresses := map[string]bool{}
	c := newCollector(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		addresses[r.RemoteAddr] = true
		respond(w, 200, partial(0, ""))
	})
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL))
	for range 20 {
		if _, err := e.Export(t.Context(), otlptest.Request(t, 10), 10); err != nil {
			t.Fatal(err)
		}
	}
	assert.Equal(t, 1, len(addresses))
}
