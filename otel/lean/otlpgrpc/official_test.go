package otlpgrpc_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

// The same environment and the same options must make the same call arrive as
// from the official exporter.
func TestSameAsOfficial(t *testing.T) {
	type official = []otlptracegrpc.Option
	type ours = []otlpgrpc.Option
	const p = "OTEL_EXPORTER_OTLP_"
	for name, test := range map[string]struct {
		env      map[string]string // HOST is replaced
		official func(host string) official
		ours     func(host string) ours
	}{
		"URL":                      {env: map[string]string{"ENDPOINT": "http://HOST"}},
		"URL with path":            {env: map[string]string{"ENDPOINT": "http://HOST/ignored"}},
		"traces URL wins":          {env: map[string]string{"ENDPOINT": "http://nowhere.invalid", "TRACES_ENDPOINT": "http://HOST"}},
		"insecure wins over https": {env: map[string]string{"ENDPOINT": "https://HOST", "INSECURE": "true"}},
		"target":                   {env: map[string]string{"ENDPOINT": "passthrough:///HOST", "INSECURE": "true"}},
		"slashes":                  {env: map[string]string{"ENDPOINT": "//HOST", "TRACES_INSECURE": "true"}},
		"headers":                  {env: map[string]string{"ENDPOINT": "http://HOST", "HEADERS": "Api-Key=a%20b%2C, x-scope = 1=2"}},
		"traces headers replace":   {env: map[string]string{"ENDPOINT": "http://HOST", "HEADERS": "a=1", "TRACES_HEADERS": "b=2"}},
		"gzip":                     {env: map[string]string{"ENDPOINT": "http://HOST", "COMPRESSION": "gzip"}},
		"traces compression wins":  {env: map[string]string{"ENDPOINT": "http://HOST", "COMPRESSION": "gzip", "TRACES_COMPRESSION": "none"}},
		"options win": {
			env: map[string]string{"ENDPOINT": "https://nowhere.invalid", "HEADERS": "a=1"},
			official: func(host string) official {
				return official{
					otlptracegrpc.WithEndpointURL("http://" + host), otlptracegrpc.WithHeaders(map[string]string{"b": "2"}),
					otlptracegrpc.WithCompressor("gzip"),
				}
			},
			ours: func(host string) ours {
				return ours{
					otlpgrpc.WithEndpointURL("http://" + host), otlpgrpc.WithHeaders(map[string]string{"b": "2"}),
					otlpgrpc.WithCompressor("gzip"),
				}
			},
		},
		"endpoint, insecure": {
			official: func(host string) official {
				return official{otlptracegrpc.WithEndpoint(host), otlptracegrpc.WithInsecure()}
			},
			ours: func(host string) ours { return ours{otlpgrpc.WithEndpoint(host), otlpgrpc.WithInsecure()} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t, nil)
			for name, value := range test.env {
				t.Setenv(p+name, strings.ReplaceAll(value, "HOST", c.address))
			}
			var theirs official
			var own ours
			if test.ours != nil {
				theirs, own = test.official(c.address), test.ours(c.address)
			}
			client := otlptracegrpc.NewClient(theirs...)
			require.NoError(t, client.Start(t.Context()))
			require.NoError(t, client.UploadTraces(t.Context(), otlptest.ResourceSpans(3)))
			require.NoError(t, client.Stop(t.Context()))
			if _, err := newExporter(t, own...).Export(t.Context(), otlptest.Request(t, 3), 3); err != nil {
				t.Fatal(err)
			}
			got := c.requests()
			if len(got) != 2 || len(c.encoding) != 2 {
				t.Fatalf("%d calls arrived, want 2", len(got))
			}
			for i := range got {
				got[i].metadata.Delete("user-agent") // its own name
				// application/grpc means the same as application/grpc+proto.
				assert.Equal(t, "application/grpc", strings.TrimSuffix(got[i].metadata.Get("content-type")[0], "+proto"), "content-type")
				got[i].metadata.Delete("content-type")
			}
			if !reflect.DeepEqual(got[1].metadata, got[0].metadata) || c.encoding[1] != c.encoding[0] {
				t.Errorf("metadata %v, encoding %q; official %v, %q", got[1].metadata, c.encoding[1], got[0].metadata, c.encoding[0])
			}
			assert.True(t, proto.Equal(got[0].request, got[1].request), "another request arrived:\n%v, official\n%v", got[1].request, got[0].request)
		})
	}
}

func TestUserAgent(t *testing.T) {
	c := newCollector(t, nil)
	if _, err := newExporter(t, to(c)...).Export(t.Context(), otlptest.Request(t, 1), 1); err != nil {
		t.Fatal(err)
	}
	if agent := c.requests()[0].metadata.Get("user-agent")[0]; !strings.HasPrefix(agent, "Tare-OTLP-Exporter-Go/") {
		t.Errorf("user-agent %q", agent)
	}
}
