package otlpgrpc_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

func TestTLS(t *testing.T) {
	certs := otlptest.NewCertificates(t)
	plain := newCollector(t, nil)
	secure := newCollector(t, nil, grpc.Creds(credentials.NewTLS(certs.Server.Clone())))
	mutual := newCollector(t, nil, grpc.Creds(credentials.NewTLS(certs.Mutual())))
	const p = "OTEL_EXPORTER_OTLP_"
	authority := map[string]string{p + "CERTIFICATE": certs.Authority}
	both := map[string]string{p + "TRACES_CERTIFICATE": certs.Authority, p + "CLIENT_CERTIFICATE": certs.Client, p + "CLIENT_KEY": certs.ClientKey}
	once := otlpgrpc.WithRetry(otlpgrpc.RetryConfig{}) // a handshake's failure is UNAVAILABLE to gRPC
	for name, test := range map[string]struct {
		env  map[string]string
		to   *collector
		url  string // scheme; https by default
		opts []otlpgrpc.Option
		err  string
	}{
		"URL":                     {env: authority, to: secure},
		"gzip":                    {env: authority, to: secure, opts: []otlpgrpc.Option{otlpgrpc.WithCompression(otlpgrpc.GzipCompression)}},
		"mutual":                  {env: both, to: mutual},
		"certificate wins (http)": {env: authority, to: secure, url: "http://"},
		"option":                  {to: secure, opts: []otlpgrpc.Option{otlpgrpc.WithTLSConfig(&tls.Config{RootCAs: certs.Pool})}},
		"unknown authority":       {to: secure, err: "unknown authority"},
		// The alert may come after the connection is closed for writing.
		"no client certificate": {env: authority, to: mutual, err: "code = Unavailable"},
		"https to plain text":   {env: authority, to: plain, err: "first record does not look like a TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			scheme := test.url
			if scheme == "" {
				scheme = "https://"
			}
			before := len(test.to.requests())
			e := newExporter(t, append(test.opts, otlpgrpc.WithEndpointURL(scheme+test.to.address), once)...)
			_, err := e.Export(t.Context(), otlptest.Request(t, 500), 500)
			arrived := test.to.requests()[before:]
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || len(arrived) != 0 {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || len(arrived) != 1 || otlptest.Spans(arrived[0].request) != 500 {
				t.Errorf("error %v, %d calls", err, len(arrived))
			}
		})
	}
	t.Run("http to TLS", func(t *testing.T) {
		e := newExporter(t, otlpgrpc.WithEndpointURL("http://"+secure.address), once)
		if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err == nil {
			t.Error("plain text reached a TLS server")
		}
	})
}
