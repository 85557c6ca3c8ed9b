package otlphttp_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// The same environment and the same options must make the same request arrive
// as from the official exporter.
func TestSameAsOfficial(t *testing.T) {
	type official = []otlptracehttp.Option
	type ours = []otlphttp.Option
	const p = "OTEL_EXPORTER_OTLP_"
	for name, test := range map[string]struct {
		env      map[string]string // HOST is replaced
		official func(host string) official
		ours     func(host string) ours
	}{
		"base URL":                {env: map[string]string{"ENDPOINT": "http://HOST"}},
		"base URL with slash":     {env: map[string]string{"ENDPOINT": "http://HOST/"}},
		"base URL with path":      {env: map[string]string{"ENDPOINT": "http://HOST/base/otlp/"}},
		"base URL, dots in it":    {env: map[string]string{"ENDPOINT": "http://HOST/a/../b//c"}},
		"traces URL without path": {env: map[string]string{"TRACES_ENDPOINT": "http://HOST"}},
		"traces URL as it is":     {env: map[string]string{"TRACES_ENDPOINT": "http://HOST/x/traces/"}},
		"traces URL wins":         {env: map[string]string{"ENDPOINT": "http://HOST/base", "TRACES_ENDPOINT": "http://HOST/x"}},
		"insecure wins over https": {
			env: map[string]string{"ENDPOINT": "https://HOST", "INSECURE": "true"},
		},
		"traces insecure wins": {
			env: map[string]string{"ENDPOINT": "https://HOST", "INSECURE": "false", "TRACES_INSECURE": "TRUE"},
		},
		"headers": {
			env: map[string]string{"ENDPOINT": "http://HOST", "HEADERS": "api-key=a%20b%2C, X-Scope-OrgID = 1=2"},
		},
		"traces headers replace": {
			env: map[string]string{"ENDPOINT": "http://HOST", "HEADERS": "a=1", "TRACES_HEADERS": "b=2"},
		},
		"gzip": {env: map[string]string{"ENDPOINT": "http://HOST", "COMPRESSION": "gzip"}},
		"traces compression wins": {
			env: map[string]string{"ENDPOINT": "http://HOST", "COMPRESSION": "gzip", "TRACES_COMPRESSION": "none"},
		},
		"options win": {
			env: map[string]string{"ENDPOINT": "https://nowhere.invalid/base", "HEADERS": "a=1", "COMPRESSION": "gzip"},
			official: func(host string) official {
				return official{
					otlptracehttp.WithEndpointURL("http://" + host + "/x"), otlptracehttp.WithHeaders(map[string]string{"b": "2"}),
					otlptracehttp.WithCompression(otlptracehttp.NoCompression),
				}
			},
			ours: func(host string) ours {
				return ours{
					otlphttp.WithEndpointURL("http://" + host + "/x"), otlphttp.WithHeaders(map[string]string{"b": "2"}),
					otlphttp.WithCompression(otlphttp.NoCompression),
				}
			},
		},
		"endpoint option keeps the path": {
			env:      map[string]string{"ENDPOINT": "http://nowhere.invalid/base"},
			official: func(host string) official { return official{otlptracehttp.WithEndpoint(host)} },
			ours:     func(host string) ours { return ours{otlphttp.WithEndpoint(host)} },
		},
		"endpoint, insecure, path, gzip": {
			official: func(host string) official {
				return official{
					otlptracehttp.WithEndpoint(host), otlptracehttp.WithInsecure(), otlptracehttp.WithURLPath(" a b "),
					otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
				}
			},
			ours: func(host string) ours {
				return ours{
					otlphttp.WithEndpoint(host), otlphttp.WithInsecure(), otlphttp.WithURLPath(" a b "),
					otlphttp.WithCompression(otlphttp.GzipCompression),
				}
			},
		},
		"empty path": {
			official: func(host string) official {
				return official{otlptracehttp.WithEndpointURL("http://" + host + "/x"), otlptracehttp.WithURLPath("")}
			},
			ours: func(host string) ours {
				return ours{otlphttp.WithEndpointURL("http://" + host + "/x"), otlphttp.WithURLPath("")}
			},
		},
		"URL option without path": {
			official: func(host string) official { return official{otlptracehttp.WithEndpointURL("http://" + host)} },
			ours:     func(host string) ours { return ours{otlphttp.WithEndpointURL("http://" + host)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t, nil)
			host := c.Listener.Addr().String()
			for name, value := range test.env {
				t.Setenv(p+name, strings.ReplaceAll(value, "HOST", host))
			}
			var theirs official
			var own ours
			if test.ours != nil {
				theirs, own = test.official(host), test.ours(host)
			}
			client := otlptracehttp.NewClient(theirs...)
			require.NoError(t, client.Start(t.Context()))
			require.NoError(t, client.UploadTraces(t.Context(), otlptest.ResourceSpans(3)))
			require.NoError(t, client.Stop(t.Context()))
			e := newExporter(t, own...)
			if _, err := e.Export(t.Context(), otlptest.Request(t, 3), 3); err != nil {
				t.Fatal(err)
			}
			got := c.requests()
			require.Len(t, got, 2, "requests arrived")
			equal(t, got[0], got[1])
		})
	}
}

func equal(t *testing.T, official, ours received) {
	t.Helper()
	if official.method != ours.method || official.uri != ours.uri || official.host != ours.host {
		t.Errorf("%s %s %s, official %s %s %s", ours.method, ours.host, ours.uri, official.method, official.host, official.uri)
	}
	for _, header := range []http.Header{official.header, ours.header} {
		header.Del("User-Agent")     // its own name
		header.Del("Content-Length") // the official one sends gzip in chunks
	}
	if !maps.EqualFunc(official.header, ours.header, func(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }) {
		t.Errorf("headers\n%v, official\n%v", ours.header, official.header)
	}
	assert.True(t, proto.Equal(official.request, ours.request), "another request arrived:\n%v, official\n%v", ours.request, official.request)
}

func TestUserAgent(t *testing.T) {
	c := newCollector(t, nil)
	for _, opts := range [][]otlphttp.Option{
		{otlphttp.WithEndpointURL(c.URL)},
		{otlphttp.WithEndpointURL(c.URL), otlphttp.WithHeaders(map[string]string{"user-agent": "mine/1"})},
	} {
		if _, err := newExporter(t, opts...).Export(t.Context(), otlptest.Request(t, 1), 1); err != nil {
			t.Fatal(err)
		}
	}
	got := c.requests()
	if agent := got[0].header.Get("User-Agent"); !strings.HasPrefix(agent, "Tare-OTLP-Exporter-Go/") {
		t.Errorf("User-Agent %q", agent)
	}
	assert.Equal(t, "mine/1", got[1].header.Get("User-Agent"))
}
