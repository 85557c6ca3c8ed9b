package pageextension

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/basicauthextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/bearertokenauthextension"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tare-trace/tare/collector/storeextension"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host has the extensions that were started, as the collector's does.
type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

// add makes and starts an extension.
func (h host) add(t *testing.T, f extension.Factory, id string, section map[string]any) extension.Extension {
	t.Helper()
	e := h.make(t, f, section, zap.NewNop())
	if err := e.Start(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var cid component.ID
	if err := cid.UnmarshalText([]byte(id)); err != nil {
		t.Fatal(err)
	}
	h[cid] = e
	return e
}

func (h host) make(t *testing.T, f extension.Factory, section map[string]any, log *zap.Logger) extension.Extension {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(section).Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	set := extensiontest.NewNopSettings(f.Type())
	set.Logger = log
	set.BuildInfo.Version = "v9.9.9"
	e, err := f.Create(t.Context(), set, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// served is a page on a real store.
type served struct {
	Extension
	log *observer.ObservedLogs
}

func start(t *testing.T, h host, section map[string]any) served {
	t.Helper()
	if _, ok := h[component.MustNewID("tare_store")]; !ok {
		h.add(t, storeextension.NewFactory(), "tare_store", map[string]any{"directory": t.TempDir(), "sync": false})
	}
	if section["endpoint"] == nil {
		section["endpoint"] = "127.0.0.1:0"
	}
	core, logs := observer.New(zap.InfoLevel)
	e := h.make(t, NewFactory(), section, zap.New(core)).(Extension)
	if err := e.Start(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return served{e, logs}
}

// get asks, and closes its connection.
func get(t *testing.T, roots *x509.CertPool, url string, header map[string]string) (*http.Response, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

// refusals are what was logged of refused requests.
func (s served) refusals() []map[string]any {
	var out []map[string]any
	for _, e := range s.log.FilterMessage("request refused").All() {
		out = append(out, e.ContextMap())
	}
	return out
}

func TestServes(t *testing.T) {
	s := start(t, host{}, map[string]any{})
	url := "http://" + s.Addr().String()
	if got := s.log.FilterMessage("page is served").All(); len(got) != 1 || got[0].ContextMap()["url"] != url+"/" {
		t.Errorf("logged %v", got)
	}
	if res, body := get(t, nil, url+"/", nil); res.StatusCode != 200 || !strings.Contains(res.Header.Get("Content-Type"), "text/html") {
		t.Errorf("page: %s %.100s", res.Status, body)
	}
	if res, body := get(t, nil, url+"/api/v1/stats", nil); res.StatusCode != 200 || !strings.Contains(body, `"version":"v9.9.9"`) {
		t.Errorf("stats: %s %s", res.Status, body)
	}
	if n := len(s.refusals()); n != 0 {
		t.Errorf("%d refusals logged", n)
	}
}

func TestAForeignHostIsRefusedAndLogged(t *testing.T) {
	s := start(t, host{}, map[string]any{"hosts": []any{"tare.example"}})
	url := "http://" + s.Addr().String() + "/api/v1/traces?service=secret"
	if res, _ := get(t, nil, url, map[string]string{"Host": "evil.example"}); res.StatusCode != 403 {
		t.Errorf("got %s", res.Status)
	}
	if res, _ := get(t, nil, url, map[string]string{"Host": "tare.example"}); res.StatusCode != 200 {
		t.Errorf("named host: %s", res.Status)
	}
	got := s.refusals()
	if len(got) != 1 || got[0]["method"] != "GET" || got[0]["path"] != "/api/v1/traces" || got[0]["status"] != int64(403) ||
		!strings.HasPrefix(got[0]["remote"].(string), "127.0.0.1:") || !strings.Contains(got[0]["reason"].(string), "evil.example") {
		t.Errorf("logged %v", got)
	}
}

func TestBasicAuth(t *testing.T) {
	h := host{}
	h.add(t, basicauthextension.NewFactory(), "basicauth/page", map[string]any{"htpasswd": map[string]any{"inline": "ann:hunter2"}})
	s := start(t, h, map[string]any{"auth": map[string]any{"authenticator": "basicauth/page"}})
	url := "http://" + s.Addr().String() + "/"
	for header, want := range map[string]int{"": 401, "Basic YW5uOndyb25n": 401, "Bearer x": 401, "Basic YW5uOmh1bnRlcjI=": 200} {
		res, body := get(t, nil, url, map[string]string{"Authorization": header})
		if res.StatusCode != want {
			t.Errorf("%q: %s", header, res.Status)
		}
		if want == 401 && (res.Header.Get("WWW-Authenticate") != `Basic realm="tare", charset="UTF-8"` || strings.Contains(body, "html")) {
			t.Errorf("%q: %v %s", header, res.Header, body)
		}
	}
	got := s.refusals()
	if len(got) != 3 || got[0]["status"] != int64(401) || got[0]["path"] != "/" || got[0]["reason"] == "" {
		t.Errorf("logged %v", got)
	}
}

func TestTokenOverTLSOnEveryAddress(t *testing.T) {
	cert, key, roots := certificate(t)
	h := host{}
	h.add(t, bearertokenauthextension.NewFactory(), "bearertokenauth", map[string]any{"token": "t0ken"})
	s := start(t, h, map[string]any{
		"endpoint": "0.0.0.0:0", "auth": map[string]any{"authenticator": "bearertokenauth"},
		"tls": map[string]any{"cert_file": cert, "key_file": key},
	})
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	url := "https://127.0.0.1:" + port + "/api/v1/services"
	// By whatever name: who has the token may read.
	if res, body := get(t, roots, url, map[string]string{"Authorization": "Bearer t0ken", "Host": "tare.example"}); res.StatusCode != 200 {
		t.Errorf("with the token: %s %s", res.Status, body)
	}
	res, _ := get(t, roots, url, map[string]string{"Authorization": "Bearer other"})
	if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != `Bearer realm="tare"` {
		t.Errorf("with another: %s %v", res.Status, res.Header)
	}
	if got := s.refusals(); len(got) != 1 || got[0]["status"] != int64(401) {
		t.Errorf("logged %v", got)
	}
}

func TestDoesNotStart(t *testing.T) {
	h := host{}
	used := start(t, h, map[string]any{})
	for name, c := range map[string]struct {
		section map[string]any
		want    string
	}{
		"exposed":          {map[string]any{"endpoint": "0.0.0.0:0"}, "other machines"},
		"no store":         {map[string]any{"endpoint": "127.0.0.1:0", "store": "tare_store/none"}, "`store`"},
		"not a store":      {map[string]any{"endpoint": "127.0.0.1:0", "store": "tare_page"}, "`store`"},
		"no authenticator": {map[string]any{"endpoint": "127.0.0.1:0", "auth": map[string]any{"authenticator": "basicauth"}}, "basicauth"},
		"used address":     {map[string]any{"endpoint": used.Addr().String()}, "set another `endpoint`"},
	} {
		h[component.MustNewID("tare_page")] = used
		e := h.make(t, NewFactory(), c.section, zap.NewNop())
		if err := e.Start(t.Context(), h); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDependencies(t *testing.T) {
	e := host{}.make(t, NewFactory(), map[string]any{"auth": map[string]any{"authenticator": "basicauth"}}, zap.NewNop())
	got := e.(extensioncapabilities.Dependent).Dependencies()
	if want := []component.ID{component.MustNewID("tare_store"), component.MustNewID("basicauth")}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// A client that never ends its request does not delay the collector's shutdown.
func TestShutdownCutsSlowReaders(t *testing.T) {
	s := start(t, host{}, map[string]any{})
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: loc"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Shutdown(context.Background()) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still shutting down")
	}
	if s.Addr() != nil {
		t.Error("still has an address")
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("again: %v", err)
	}
}

// certificate makes one of 127.0.0.1, for an hour.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for file, b := range map[string][]byte{cert: certPEM, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return cert, key, roots
}
