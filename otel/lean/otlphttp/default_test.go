package otlphttp_test

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// OTLP's default is plain text to this machine; whoever names a host, or has
// certificates, gets TLS unless something says otherwise.
func TestEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		opts []otlphttp.Option
		want string
	}{
		"default":         {nil, nil, "http://localhost:4318/v1/traces"},
		"secure default":  {map[string]string{"OTEL_EXPORTER_OTLP_INSECURE": "false"}, nil, "https://localhost:4318/v1/traces"},
		"certificates":    {nil, []otlphttp.Option{otlphttp.WithTLSConfig(&tls.Config{})}, "https://localhost:4318/v1/traces"},
		"path":            {nil, []otlphttp.Option{otlphttp.WithURLPath("/x")}, "http://localhost:4318/x"},
		"host":            {nil, []otlphttp.Option{otlphttp.WithEndpoint("c:1")}, "https://c:1/v1/traces"},
		"insecure host":   {nil, []otlphttp.Option{otlphttp.WithInsecure(), otlphttp.WithEndpoint("c:1")}, "http://c:1/v1/traces"},
		"URL of variable": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c"}, nil, "https://c/v1/traces"},
		"URL for traces":  {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, nil, "http://c/x"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			assert.Equal(t, c.want, newExporter(t, c.opts...).Endpoint())
		})
	}
}
