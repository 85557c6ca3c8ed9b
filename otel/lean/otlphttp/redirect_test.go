package otlphttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

func TestRedirects(t *testing.T) {
	certs := otlptest.NewCertificates(t)
	target := newCollector(t, nil)
	secure := newUnstarted(t, nil)
	secure.TLS = certs.Server.Clone()
	secure.StartTLS()
	otherHost := func(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }
	for name, test := range map[string]struct {
		status   int
		from, to *collector
		location string
		followed bool
	}{
		"307":                    {status: 307, to: target, location: target.URL + "/new", followed: true},
		"308":                    {status: 308, to: target, location: target.URL + "/new", followed: true},
		"301 would lose spans":   {status: 301, to: target, location: target.URL + "/new"},
		"302 would lose spans":   {status: 302, to: target, location: target.URL + "/new"},
		"303 would lose spans":   {status: 303, to: target, location: target.URL + "/new"},
		"307 to another host":    {status: 307, to: target, location: otherHost(target.URL)},
		"308 from http to https": {status: 308, to: secure, location: secure.URL, followed: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(test.to.requests())
			c := newCollector(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, test.location, test.status)
			})
			// The client is the user's, since certificates are not for http.
			transport := &http.Transport{}
			transport.TLSClientConfig = certs.Server.Clone()
			transport.TLSClientConfig.RootCAs = certs.Pool
			defer transport.CloseIdleConnections()
			e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick), otlphttp.WithHTTPClient(&http.Client{Transport: transport}))
			_, err := e.Export(t.Context(), otlptest.Request(t, 3), 3)
			arrived := test.to.requests()[before:]
			if test.followed {
				if err != nil || len(arrived) != 1 || otlptest.Spans(arrived[0].request) != 3 || arrived[0].method != "POST" {
					t.Errorf("error %v, arrived %+v", err, arrived)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.location) || len(arrived) != 0 || len(c.requests()) != 1 {
				t.Errorf("error %v, want one that names %s; %d requests arrived there", err, test.location, len(arrived))
			}
		})
	}
	t.Run("in a circle", func(t *testing.T) {
		c := newCollector(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
		})
		e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick))
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		if n := len(c.requests()); n != 10 || err == nil || !strings.Contains(err.Error(), "10 redirects") {
			t.Errorf("error %v after %d requests", err, n)
		}
	})
	t.Run("from https to http", func(t *testing.T) {
		c := newUnstarted(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
		})
		c.TLS = certs.Server.Clone()
		c.StartTLS()
		before := len(target.requests())
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", certs.Authority)
		_, err := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick)).Export(t.Context(), otlptest.Request(t, 1), 1)
		if err == nil || !strings.Contains(err.Error(), "307") || len(target.requests()) != before {
			t.Errorf("error %v; the spans went on in plain text: %v", err, len(target.requests()) != before)
		}
	})
	// A user's client may follow anything; but a GET's 200 is no success.
	t.Run("client that loses spans", func(t *testing.T) {
		web := newCollector(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Redirect(w, r, "/web", http.StatusFound)
			}
		})
		client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
		defer client.CloseIdleConnections()
		e := newExporter(t, otlphttp.WithEndpointURL(web.URL), otlphttp.WithHTTPClient(client), otlphttp.WithRetry(quick))
		if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err == nil || !strings.Contains(err.Error(), "without the spans") {
			t.Errorf("error %v, want one that says that the spans are lost", err)
		}
	})
}
