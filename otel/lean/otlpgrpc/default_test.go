package otlpgrpc_test

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

// OTLP's default is plain text to this machine; whoever names a host, or has
// certificates, gets TLS unless something says otherwise.
func TestEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		opts []otlpgrpc.Option
		want string
	}{
		"default":         {nil, nil, "http://localhost:4317"},
		"secure default":  {map[string]string{"OTEL_EXPORTER_OTLP_INSECURE": "false"}, nil, "https://localhost:4317"},
		"certificates":    {nil, []otlpgrpc.Option{otlpgrpc.WithTLSConfig(&tls.Config{})}, "https://localhost:4317"},
		"host":            {nil, []otlpgrpc.Option{otlpgrpc.WithEndpoint("c:1")}, "https://c:1"},
		"insecure host":   {nil, []otlpgrpc.Option{otlpgrpc.WithInsecure(), otlpgrpc.WithEndpoint("c:1")}, "http://c:1"},
		"URL of variable": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, nil, "http://c:1"},
		"socket":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "unix:/s"}, nil, "unix:/s"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			e, err := otlpgrpc.New(c.opts...)
			require.NoError(t, err)
			defer func() { _ = e.Shutdown(t.Context()) }()
			assert.Equal(t, c.want, e.Endpoint())
		})
	}
}
