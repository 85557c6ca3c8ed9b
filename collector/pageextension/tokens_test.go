package pageextension

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/storeextension"
)

func hashOf(token string) string {
	h := sha256.Sum256([]byte(token))
	return hex.EncodeToString(h[:])
}

// tokensFile has a token of everything, and one of each of the services.
func tokensFile(t *testing.T, services ...string) string {
	t.Helper()
	text := fmt.Sprintf("tokens:\n- name: admin\n  sha256: %s\n  services: ['*']\n", hashOf("all-seeing"))
	for _, s := range services {
		text += fmt.Sprintf("- name: team of %s\n  sha256: %s\n  services: ['%s*']\n", s, hashOf("token of "+s), s)
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stored is a host with a store that has a span of each service, in one trace.
func stored(t *testing.T, services ...string) host {
	t.Helper()
	h := host{}
	e := h.add(t, storeextension.NewFactory(), "tare_store", map[string]any{"directory": t.TempDir(), "sync": false})
	td := ptrace.NewTraces()
	for i, s := range services {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", s)
		span := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		span.SetTraceID(pcommon.TraceID{1})
		span.SetSpanID(pcommon.SpanID{byte(i + 1)})
		span.SetName("GET /" + s)
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(time.Now().Add(-time.Minute)))
	}
	if err := e.(storeextension.Extension).Store().Write(context.Background(), td); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestTokensSeeTheirServices(t *testing.T) {
	s := start(t, stored(t, "pay", "cart"), map[string]any{"tokens": tokensFile(t, "pay", "cart")})
	url := "http://" + s.Addr().String()
	basic := func(token string) string { return "Basic " + basicText("anybody:"+token) }
	for header, want := range map[string]string{
		"Bearer all-seeing": "pay cart", "bearer  token of pay": "pay", basic("token of cart"): "cart", basic("all-seeing"): "pay cart",
	} {
		res, body := get(t, nil, url+"/api/v1/services", map[string]string{"Authorization": header})
		var got []string
		for _, name := range []string{"pay", "cart"} {
			if strings.Contains(body, `"`+name+`"`) {
				got = append(got, name)
			}
		}
		if res.StatusCode != 200 || strings.Join(got, " ") != want {
			t.Errorf("%s: %s %s", header, res.Status, body)
		}
		if res, _ := get(t, nil, url+"/", map[string]string{"Authorization": header}); res.StatusCode != 200 {
			t.Errorf("%s: the page: %s", header, res.Status)
		}
	}
	res, body := get(t, nil, url+"/", map[string]string{"Authorization": "Bearer token of pa"})
	if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != readerHeader || strings.Contains(body, "html") {
		t.Errorf("another token: %s %s", res.Status, body)
	}
	if strings.Contains(fmt.Sprint(s.refusals()), "token of pa") {
		t.Errorf("logged %v", s.refusals())
	}
}

// Without a token that is in the file, nothing behind is asked, whatever the path.
func TestNoToken(t *testing.T) {
	tokens, err := openTokens(tokensFile(t, "pay"), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	h := tokens.authenticate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %v passed", r.URL, r.Header) }),
		func(w http.ResponseWriter, _ *http.Request, _ string, status int) { w.WriteHeader(status) })
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer token of pa", "Basic " + basicText("pay:"), "Basic " + basicText("token of pay:x"), "Basic x", "Digest token of pay", hashOf("token of pay")} {
		for _, path := range []string{"/", "/api/v1/services", "/api/services", "/none"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != 401 {
				t.Errorf("%q %s: %d", header, path, w.Code)
			}
		}
	}
}

// A token that is added or removed is valid, or not, without a restart. A file that cannot be used changes nothing.
func TestTokensAreReadAgain(t *testing.T) {
	path := tokensFile(t, "pay")
	tokens, err := openTokens(path, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tokens.now = func() time.Time { now = now.Add(tokensFresh); return now }
	valid := func(token string) bool { _, ok := tokens.find(token); return ok }
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(name string) string {
		return fmt.Sprintf("- {name: %s, sha256: %s, services: [a]}\n", name, hashOf(name))
	}
	if !valid("token of pay") || valid("b") {
		t.Error("at first")
	}
	write("tokens:\n"+entry("b"), 0o600)
	if valid("token of pay") || !valid("b") {
		t.Error("replaced")
	}
	write("tokens:\n"+entry("c"), 0o644)
	write2 := func(text string) { write(text, 0o600) }
	if !valid("b") || valid("c") {
		t.Error("readable by others")
	}
	write2("tokens: nonsense")
	if !valid("b") {
		t.Error("not valid")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !valid("b") {
		t.Error("removed")
	}
	write2("tokens: []\n")
	if valid("b") {
		t.Error("without tokens")
	}
}

func TestTokensThatMustNotBe(t *testing.T) {
	good := "name: a\n  sha256: " + hashOf("a") + "\n  services: [a]\n"
	for text, want := range map[string]string{
		"tokens: [{name: a}]":                                                        "`sha256`",
		"tokens: [{name: a, sha256: abc, services: [a]}]":                            "64 hexadecimal digits",
		"tokens: [{name: a, sha256: " + hashOf("a") + "00, services: [a]}]":          "64 hexadecimal digits",
		"tokens: [{sha256: " + hashOf("a") + ", services: [a]}]":                     "`name`",
		"tokens: [{name: a, sha256: " + hashOf("a") + "}]":                           "`services`",
		"tokens: [{name: a, sha256: " + hashOf("a") + ", services: ['']}]":           "empty name",
		"tokens: [{name: a, sha256: " + hashOf("") + ", services: [a]}]":             "no token at all",
		"tokens:\n- " + good + "- " + good:                                           "the name",
		"tokens:\n- " + good + "- " + strings.Replace(good, "name: a", "name: b", 1): "the same `sha256`",
		"tokens:\n- " + good + "  servces: [b]\n":                                    "no YAML with a list",
		"tokens:\n- s3cr3t\n":                                                        "no YAML with a list",
	} {
		_, err := parseTokens([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for name, c := range map[string]struct {
		mode os.FileMode
		want string
	}{"readable by the group": {0o640, "chmod 0600"}, "readable by all": {0o604, "chmod 0600"}, "writable by all": {0o602, "chmod 0600"}} {
		path := tokensFile(t)
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		e := stored(t).make(t, NewFactory(), map[string]any{"endpoint": "127.0.0.1:0", "tokens": path}, zap.NewNop())
		if err := e.Start(t.Context(), host{}); err == nil || !strings.Contains(err.Error(), "`store`") {
			t.Errorf("%s: without a store: %v", name, err)
		}
		if err := e.Start(t.Context(), stored(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := openTokens(t.TempDir(), zap.NewNop()); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Error(err)
	}
}

func TestTokensInTheConfiguration(t *testing.T) {
	tls := map[string]any{"cert_file": "c", "key_file": "k"}
	if err := confmap.Validate(load(t, map[string]any{"endpoint": "10.0.0.1:1", "tokens": "f", "tls": tls})); err != nil {
		t.Error(err)
	}
	for want, section := range map[string]map[string]any{
		"set `tls`":  {"endpoint": "10.0.0.1:1", "tokens": "f"},
		"remove one": {"tokens": "f", "auth": map[string]any{"authenticator": "basicauth"}},
		"`path`":     {"audit": map[string]any{"required": true}},
		"at least":   {"audit": map[string]any{"path": "f", "max_file_size": "1KiB"}},
	} {
		if err := confmap.Validate(load(t, section)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", section, err)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("tokens:\n- {name: a, sha256: " + hashOf("a") + ", services: [a]}\n")
	f.Add("tokens: [{name: a, namespaces: [x]}]")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseTokens([]byte(text))
		if err != nil && found != nil {
			t.Error("tokens beside an error")
		}
		for _, r := range found {
			if r.name == "" || r.scope != nil && r.scope.Validate() != nil {
				t.Errorf("%+v", r)
			}
		}
	})
}
