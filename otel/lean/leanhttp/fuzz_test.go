package leanhttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// spanOf runs one request with an instrumentation on the SDK and returns name
// and attributes of its span.
func spanOf(t *testing.T, run func(*sdktrace.TracerProvider)) (string, any) {
	rec := tracetest.NewSpanRecorder()
	run(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec)))
	require.Len(t, rec.Ended(), 1, "spans")
	return rec.Ended()[0].Name(), rec.Ended()[0].Attributes()
}

// Any request that a handler or a transport may be given has otelhttp's name
// and attributes, those that no net/http would make included.
func FuzzAttributes(f *testing.F) {
	for _, s := range [][]string{
		{"GET", "example.com:8080", "127.0.0.1:1234", "HTTP/1.1", "GET /a/{b}", "agent", "10.0.0.1, 10.0.0.2", "/a/b", ""},
		{"", "", "", "", "", "", "", "", ""},
		{"get", "[::1]:80", "[::1", "HTTP/2.0", "host/path", "", ",x", "", "name:80"},
		{"PURGE", "a:b:c", "@", "http/1.0", "nothing", "", "", "*", "[fe80::1%eth0]"},
		{"ß", ":80", ":0", "QUIC", "/", "", "", "//", ":"},
		{"x", "h:65536", "h:-1", "/3", "", "", "", "%", "h:+1"},
	} {
		f.Add(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], false)
		f.Add(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], true)
	}
	f.Fuzz(func(t *testing.T, method, host, remote, proto, pattern, agent, forwarded, path, server string, client bool) {
		request := func() *http.Request {
			r := httptest.NewRequest("GET", "/", nil)
			r.Method, r.Host, r.RemoteAddr, r.Proto, r.Pattern = method, host, remote, proto, pattern
			r.Header = http.Header{"User-Agent": {agent}, "X-Forwarded-For": {forwarded}, "Host": {server}}
			r.URL = &url.URL{Scheme: "http", Host: host, Path: path, User: url.UserPassword(agent, forwarded)}
			return r
		}
		one := func(with instrumentation) (string, any) {
			return spanOf(t, func(tp *sdktrace.TracerProvider) {
				o := options{server: server}
				if !client {
					with.handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), tp, o).ServeHTTP(httptest.NewRecorder(), request())
					return
				}
				failing := answers(func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") })
				if _, err := with.transport(failing, tp, o).RoundTrip(request()); err == nil {
					t.Error("no error")
				}
			})
		}
		wantName, want := one(official)
		gotName, got := one(ours)
		if gotName != wantName || !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %q %v\nwant %q %v", gotName, got, wantName, want)
		}
	})
}
