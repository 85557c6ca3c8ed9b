package pageextension

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/basicauthextension"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/tare-trace/tare/web"
)

func basicText(userAndPassword string) string {
	return base64.StdEncoding.EncodeToString([]byte(userAndPassword))
}

// readAudit reads the lines, and takes away what differs from run to run.
func readAudit(t *testing.T, path string) (lines []auditLine, raw string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var l auditLine
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if at, err := time.Parse(time.RFC3339Nano, l.Time); err != nil || time.Since(at).Abs() > time.Hour {
			t.Errorf("time %s", l.Time)
		}
		if !strings.HasPrefix(l.Client, "127.0.0.1:") {
			t.Errorf("client %s", l.Client)
		}
		lines = append(lines, l)
	}
	return lines, string(b)
}

func TestAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, stored(t, "pay", "cart"), map[string]any{"tokens": tokensFile(t, "pay"), "audit": map[string]any{"path": path}, "hosts": []any{"tare.example"}})
	url := "http://" + s.Addr().String()
	const token, trace = "token of pay", "01000000000000000000000000000000"
	ask := func(path, token, host string, want int) {
		t.Helper()
		header := map[string]string{"Authorization": "Bearer " + token}
		if host != "" {
			header["Host"] = host
		}
		if res, body := get(t, nil, url+path, header); res.StatusCode != want {
			t.Fatalf("%s: %s %s", path, res.Status, body)
		}
	}
	ask("/", token, "", 200) // the page alone tells nothing
	ask("/api/v1/traces/"+trace, token, "", 200)
	ask("/api/v1/traces?service=pay&attr=a%3Db%0Ac&attr=x%3Dtoken+of+pay&last=1h", token, "", 200)
	ask("/api/v1/traces?password=hunter2&limit=x", token, "", 400)
	ask("/api/v1/traces/"+trace, "wrong-token", "", 401)
	ask("/api/v1/services", "all-seeing", "evil.example", 403)
	ask("/api/services?"+strings.Repeat("a=b&", 100)+"c="+strings.Repeat("d", 1000), "all-seeing", "tare.example", 200)
	got, raw := readAudit(t, path)
	for _, secret := range []string{token, "token+of+pay", "wrong-token", "all-seeing", "hunter2", hashOf(token)} {
		if strings.Contains(raw, secret) {
			t.Errorf("it has %s: %s", secret, raw)
		}
	}
	want := []auditLine{
		{Event: "answered", Reader: "team of pay", Route: "GET /api/v1/traces/{id}", Path: "/api/v1/traces/" + trace, Services: []string{"pay"}, Traces: 1, Status: 200},
		{Event: "answered", Reader: "team of pay", Route: "GET /api/v1/traces", Path: "/api/v1/traces", Services: []string{"pay"}, Status: 200,
			Parameters: map[string][]string{"service": {"pay"}, "attr": {"a=b\nc", "x=***"}, "last": {"1h"}}},
		{Event: "answered", Reader: "team of pay", Route: "GET /api/v1/traces", Path: "/api/v1/traces", Status: 400,
			Parameters: map[string][]string{"password": {"***"}, "limit": {"x"}}},
		{Event: "refused", Path: "/api/v1/traces/" + trace, Status: 401, Reason: "unknown token"},
		{Event: "refused", Reader: "admin", Path: "/api/v1/services", Status: 403, Reason: "host evil.example is not allowed"},
		{Event: "answered", Reader: "admin", Route: "GET /api/services", Path: "/api/services", Status: 200},
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %s", len(got), len(want), raw)
	}
	for i, w := range want {
		g := got[i]
		same := g.Event == w.Event && g.Reader == w.Reader && g.Method == "GET" && g.Route == w.Route && g.Path == w.Path &&
			slices.Equal(g.Services, append([]string{}, w.Services...)) && g.Traces == w.Traces && g.Status == w.Status && g.Reason == w.Reason
		if !same || i < 5 && !maps.EqualFunc(g.Parameters, w.Parameters, slices.Equal[[]string]) {
			t.Errorf("line %d: %+v, want %+v", i, g, w)
		}
	}
	n, longest := 0, 0
	for _, values := range got[5].Parameters {
		for _, v := range values {
			n, longest = n+1, max(longest, len(v))
		}
	}
	if n > maxParameters || longest > maxText+3 {
		t.Errorf("%d parameters of up to %d bytes", n, longest)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Who has no token cannot fill the disk, nor hide who has one.
func TestRefusalsInTheAuditLogAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := newAudit(componenttest.NewNopTelemetrySettings(), &AuditConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	const tries = 10_000
	began := time.Now()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/services", nil)
	r.RemoteAddr = "127.0.0.1:1"
	for range tries {
		a.refused(r, http.StatusUnauthorized, "no token")
	}
	most := 21 + int(time.Since(began)/time.Second)
	for range 30 {
		if err := a.asked(web.Asked{Request: r, Status: http.StatusOK}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	got, _ := readAudit(t, path)
	for _, l := range got {
		lines[l.Event]++
	}
	if lines["refused"] > most || lines["refused"] < 20 || lines["answered"] != 30 {
		t.Errorf("%v of %d refusals, of which at most %d are to be written, and 30 answers", lines, tries, most)
	}
}

// While the log cannot be written, queries are refused if it is required, and answered else; both is said.
func TestAuditLogThatCannotBeWritten(t *testing.T) {
	for _, required := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "audit")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "audit.jsonl")
		s := start(t, stored(t, "pay"), map[string]any{"audit": map[string]any{"path": path, "required": required}})
		url := "http://" + s.Addr().String() + "/api/v1/services"
		ask := func() (int, string) {
			res, body := get(t, nil, url, nil)
			return res.StatusCode, body
		}
		if status, body := ask(); status != 200 || !strings.Contains(body, "pay") {
			t.Fatal(status, body)
		}
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		want := map[bool]int{false: http.StatusOK, true: http.StatusServiceUnavailable}[required]
		if status, body := ask(); status != want || strings.Contains(body, "pay") == required {
			t.Errorf("required %v: %d %s", required, status, body)
		}
		var said []string
		for _, e := range s.log.All() {
			if strings.HasPrefix(e.Message, "the audit log cannot be written") {
				said = append(said, e.Message)
			}
		}
		if len(said) != 1 || strings.Contains(said[0], "refused") != required {
			t.Errorf("required %v: said %q", required, said)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		if status, _ := ask(); status != 200 {
			t.Errorf("required %v: when it can be written again: %d", required, status)
		}
		if got, raw := readAudit(t, path); len(got) != 2 {
			t.Errorf("required %v: %s", required, raw)
		}
	}
}

// The user of an authenticator is who asks.
func TestAuditNamesUsers(t *testing.T) {
	h := stored(t)
	h.add(t, basicauthextension.NewFactory(), "basicauth/page", map[string]any{"htpasswd": map[string]any{"inline": "ann:hunter2"}})
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, h, map[string]any{"auth": map[string]any{"authenticator": "basicauth/page"}, "audit": map[string]any{"path": path}})
	url := "http://" + s.Addr().String() + "/api/v1/services"
	get(t, nil, url, map[string]string{"Authorization": "Basic " + basicText("ann:hunter2")})
	get(t, nil, url, map[string]string{"Authorization": "Basic " + basicText("ann:wrong-one")})
	got, raw := readAudit(t, path)
	if len(got) != 2 || got[0].Reader != "ann" || got[0].Event != "answered" || got[1].Event != "refused" || got[1].Reader != "" ||
		strings.Contains(raw, "hunter2") || strings.Contains(raw, "wrong-one") {
		t.Error(raw)
	}
}
