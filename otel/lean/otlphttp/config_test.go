package otlphttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

func TestWrongVariables(t *testing.T) {
	const p = "OTEL_EXPORTER_OTLP_"
	for name, value := range map[string]string{
		"ENDPOINT":           "localhost:4318",
		"TRACES_ENDPOINT":    "http://user:secret@localhost:4318",
		"HEADERS":            "secret",
		"TRACES_HEADERS":     "Content-Type=secret",
		"TIMEOUT":            "10s",
		"COMPRESSION":        "brotli",
		"INSECURE":           "on",
		"CERTIFICATE":        filepath.Join(t.TempDir(), "missing"),
		"CLIENT_CERTIFICATE": "without a key",
		"TRACES_CLIENT_KEY":  "without a certificate",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(p+name, value)
			_, err := otlphttp.New()
			assert.ErrorContains(t, err, p+name)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v shows a secret", err)
			}
		})
	}
}

func TestWrongOptions(t *testing.T) {
	for want, option := range map[string]otlphttp.Option{
		"use WithEndpointURL":   otlphttp.WithEndpoint("http://localhost:4318"),
		"want host":             otlphttp.WithEndpoint(""),
		"host:port":             otlphttp.WithEndpoint("localhost:4318/v1/traces"),
		"must begin with http":  otlphttp.WithEndpointURL("grpc://localhost"),
		"control character":     otlphttp.WithHeaders(map[string]string{"a": "b\r\nc: d"}),
		"name of a header":      otlphttp.WithHeaders(map[string]string{"a b": "c"}),
		"set by the exporter":   otlphttp.WithHeaders(map[string]string{"content-encoding": "br"}),
		"WithTimeout(-1s)":      otlphttp.WithTimeout(-time.Second),
		"WithCompression(7)":    otlphttp.WithCompression(7),
		"negative time":         otlphttp.WithRetry(otlphttp.RetryConfig{MaxInterval: -1}),
		"WithHTTPClient(nil)":   otlphttp.WithHTTPClient(nil),
		"WithProxy(nil)":        otlphttp.WithProxy(nil),
		"the endpoint is http:": func() otlphttp.Option { return otlphttp.WithTLSConfig(&tls.Config{}) }(),
	} {
		opts := []otlphttp.Option{otlphttp.WithInsecure(), option}
		if _, err := otlphttp.New(opts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	headers, certificates, err := otlphttp.Credentials()
	if err != nil || headers != nil || certificates != nil {
		t.Errorf("without variables: %v, %v, %v", headers, certificates, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x")
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", otlptest.NewCertificates(t).Authority)
	headers, certificates, err = otlphttp.Credentials()
	if err != nil || headers["authorization"] != "Bearer x" || certificates == nil || certificates.RootCAs == nil {
		t.Errorf("%v, %v, %v", headers, certificates, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
	if _, _, err := otlphttp.Credentials(); err == nil || !strings.Contains(err.Error(), "TIMEOUT") {
		t.Errorf("a wrong variable: %v", err)
	}
}

func TestTimeoutVariable(t *testing.T) {
	unblock := make(chan struct{})
	c := newCollector(t, func(int, http.ResponseWriter, *http.Request) { <-unblock })
	defer close(unblock)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "20")
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(otlphttp.RetryConfig{}))
	_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no response within 20ms") {
		t.Errorf("error %v, want the timeout's", err)
	}
}

func TestProxy(t *testing.T) {
	proxy := newCollector(t, nil)
	e := newExporter(t, otlphttp.WithEndpointURL("http://collector.invalid/x"),
		otlphttp.WithProxy(func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }))
	if _, err := e.Export(t.Context(), otlptest.Request(t, 2), 2); err != nil {
		t.Fatal(err)
	}
	if got := proxy.requests(); len(got) != 1 || got[0].uri != "http://collector.invalid/x" || otlptest.Spans(got[0].request) != 2 {
		t.Errorf("the proxy got %+v", got)
	}
}

// countingTransport is a user's; the exporter must use it and leave it alone.
type countingTransport struct {
	http.Transport
	requests int
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests++
	return c.Transport.RoundTrip(r)
}

func TestHTTPClient(t *testing.T) {
	c := newCollector(t, nil)
	transport := &countingTransport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	e, err := otlphttp.New(otlphttp.WithEndpointURL(c.URL), otlphttp.WithHTTPClient(client))
	require.NoError(t, err)
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, e.Shutdown(t.Context()))
	if transport.requests != 1 || client.CheckRedirect != nil {
		t.Errorf("%d requests by the client; its CheckRedirect was changed: %v", transport.requests, client.CheckRedirect != nil)
	}
}
