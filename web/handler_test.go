package web_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-trace/tare/web"
)

// fetch asks with headers, and gives back the answer as it came.
func fetch(t *testing.T, method, url string, header map[string]string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		} else {
			req.Header.Set(k, v)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(req) // no redirects, no decompression
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

func TestHeaders(t *testing.T) {
	s := serve(t, web.Options{Store: shop(t)})
	for _, path := range []string{"/", "/api/v1/services", "/api/services", "/api/v1/none", "/none", "/api/v1/traces?limit=0"} {
		res, _ := fetch(t, "GET", s.URL+path, map[string]string{"Origin": "https://evil.example"})
		if csp := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self'; ") {
			t.Errorf("%s: CSP %q", path, csp)
		}
		for k, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
			"Set-Cookie": "", "Access-Control-Allow-Origin": "",
		} {
			if got := res.Header.Get(k); got != want {
				t.Errorf("%s: %s: %q", path, k, got)
			}
		}
	}
}

func TestPage(t *testing.T) {
	s := serve(t, web.Options{Store: shop(t)})
	res, body := fetch(t, "GET", s.URL+"/", nil)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(strings.ToLower(body), "<!doctype html") {
		t.Fatalf("%s %v: %.200s", res.Status, res.Header, body)
	}
	etag := res.Header.Get("ETag")
	if !strings.HasPrefix(etag, `W/"`) { // the compressed page has other bytes
		t.Errorf("ETag %s is not weak", etag)
	}
	if again, body := fetch(t, "GET", s.URL+"/", map[string]string{"If-None-Match": etag}); again.StatusCode != 304 || body != "" {
		t.Errorf("with ETag %s: %s", etag, again.Status)
	}
	if again, _ := fetch(t, "GET", s.URL+"/", map[string]string{"If-None-Match": etag, "Accept-Encoding": "gzip"}); again.StatusCode != 304 {
		t.Errorf("compressed, with ETag %s: %s", etag, again.Status)
	}
	if res, _ := fetch(t, "HEAD", s.URL+"/index.html", nil); res.StatusCode != 200 || res.Header.Get("ETag") != etag {
		t.Errorf("HEAD: %s", res.Status)
	}
	for _, path := range []string{"/none", "/../go.mod", "/%2e%2e/go.mod", "/page.go", "/assets/index.html"} {
		if res, _ := fetch(t, "GET", s.URL+path, nil); res.StatusCode != 404 && res.StatusCode != 301 && res.StatusCode != 307 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

func TestCompression(t *testing.T) {
	s := serve(t, web.Options{Store: shop(t)})
	const path = "/api/v1/traces/0a000000000000000000000000000001"
	_, plain := fetch(t, "GET", s.URL+path, nil)
	res, small := fetch(t, "GET", s.URL+path, map[string]string{"Accept-Encoding": "gzip"})
	if res.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(res.Header.Get("Vary"), "Accept-Encoding") || len(small) > len(plain)/2 {
		t.Fatalf("%v, %d of %d bytes", res.Header, len(small), len(plain))
	}
	r, err := gzip.NewReader(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != plain {
		t.Errorf("%v: %s", err, b)
	}
}

func TestOnlyReads(t *testing.T) {
	s := serve(t, web.Options{Store: shop(t)})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		for _, path := range []string{"/", "/api/v1/services", "/api/v1/traces/0a000000000000000000000000000001", "/api/traces"} {
			if res, _ := fetch(t, method, s.URL+path, nil); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %s, Allow %q", method, path, res.Status, res.Header.Get("Allow"))
			}
		}
	}
}

func TestForeignHostsAreRefused(t *testing.T) {
	var reasons []string
	o := web.Options{Store: shop(t), Hosts: []string{"tare.example"}, Refused: func(r *http.Request, status int, reason string) {
		if status != 403 || r.URL.Path == "" {
			t.Errorf("refused %d %s", status, r.URL.Path)
		}
		reasons = append(reasons, reason)
	}}
	s := serve(t, o)
	for _, path := range []string{"/", "/api/v1/services", "/api/services"} {
		res, body := fetch(t, "GET", s.URL+path, map[string]string{"Host": "evil.example:4680"})
		if res.StatusCode != 403 || !strings.Contains(body, "hosts") {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
		if res, _ := fetch(t, "GET", s.URL+path, map[string]string{"Host": "tare.example"}); res.StatusCode != 200 {
			t.Errorf("%s by its name: %s", path, res.Status)
		}
	}
	if len(reasons) != 3 || !strings.Contains(reasons[0], "evil.example") {
		t.Errorf("told %q", reasons)
	}
	o.AnyHost = true
	if res, _ := fetch(t, "GET", serve(t, o).URL+"/api/v1/services", map[string]string{"Host": "evil.example"}); res.StatusCode != 200 {
		t.Errorf("any host: %s", res.Status)
	}
}

// Services have slashes and spaces in their names; clients escape them in several ways,
// Grafana not at all.
func TestJaegerOperationsOfAwkwardServices(t *testing.T) {
	const name = "team/shop +1%"
	tr := newTrace(1, noon)
	tr.span(name, "GET /", server, 1, 0, 0, ms)
	s := serve(t, web.Options{Store: open(t, tr)})
	for _, path := range []string{
		"/api/services/team/shop%20+1%25/operations",             // url.JoinPath
		"/api/services/team%2Fshop%20%2B1%25/operations",         // encodeURIComponent
		"/api/services/team%252Fshop%2520%252B1%2525/operations", // twice
	} {
		res, body := fetch(t, "GET", s.URL+path, nil)
		var got struct{ Data []string }
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Data) != 1 || got.Data[0] != "GET /" {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
	}
	if res, body := fetch(t, "GET", s.URL+"/api/services/nobody/operations", nil); res.StatusCode != 200 || !strings.Contains(body, `"data":[]`) {
		t.Errorf("%s %s", res.Status, body)
	}
}

// Pages follow each other without losing or repeating a trace.
func TestPagesOfTraces(t *testing.T) {
	var all []*trace
	for i := range byte(25) {
		all = append(all, order(i+1, noon.Add(ms*1000*1)))
	}
	s := serve(t, web.Options{Store: open(t, all...)})
	seen := map[string]bool{}
	after := ""
	for range 10 {
		_, body := fetch(t, "GET", s.URL+"/api/v1/traces?limit=7&after="+after, nil)
		var page struct {
			Traces []struct {
				ID string `json:"trace_id"`
			}
			Next string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err, body)
		}
		for _, tr := range page.Traces {
			if seen[tr.ID] {
				t.Errorf("%s twice", tr.ID)
			}
			seen[tr.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) != 25 {
		t.Errorf("%d traces of 25", len(seen))
	}
}

// Two packages compute the list and the trace; both must agree, above all on the weight.
func TestTheListTellsWhatTheTraceTells(t *testing.T) {
	all := []*trace{order(1, noon), broken(2, noon)}
	for i, state := range []string{"", "ot=th:0", "ot=th:c", "ot=th:fd70a3d70a3d71", "x=y,ot=rv:01;th:e8", "ot=th:zz", "ot=th:ffffffffffffff"} {
		tr := newTrace(byte(10+i), noon)
		tr.span("web", "GET /", server, 1, 0, 0, ms).TraceState().FromRaw(state)
		all = append(all, tr)
	}
	s := serve(t, web.Options{Store: open(t, all...)})
	type told struct {
		ID       string `json:"trace_id"`
		Start    string
		Duration int64 `json:"duration_ns"`
		State    string
		Reason   string
		Keep     string
		Weight   float64
		Services []struct {
			Name          string
			Spans, Errors int
		}
	}
	_, body := fetch(t, "GET", s.URL+"/api/v1/traces?limit=100", nil)
	var list struct{ Traces []told }
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Traces) != len(all) {
		t.Fatalf("%d traces of %d, %v", len(list.Traces), len(all), err)
	}
	for _, want := range list.Traces {
		_, body := fetch(t, "GET", s.URL+"/api/v1/traces/"+want.ID, nil)
		var got told
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the trace tells %+v\nthe list     %+v", got, want)
		}
	}
}
