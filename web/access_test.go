package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
)

// What may not be seen has names that are nowhere else.
const (
	own     = "checkout"
	foreign = "zz-foreign"
	ownID   = "0a000000000000000000000000000001" // has spans of both
	otherID = "0a000000000000000000000000000002" // has foreign ones only
)

var day = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// shared has two traces, a metrics endpoint, and log records. Everything of the foreign service names it: names,
// attributes, events, links, status, scope, resource, log records, labels.
func shared(t *testing.T) (*store.Store, string) {
	t.Helper()
	td := ptrace.NewTraces()
	add := func(service string, trace, id, parent byte, kind ptrace.SpanKind) ptrace.Span {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", service)
		rs.Resource().Attributes().PutStr("host.name", service+"-host")
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(service + "-scope")
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{0: 0xa, 15: trace})
		s.SetSpanID(pcommon.SpanID{7: id})
		s.SetParentSpanID(pcommon.SpanID{7: parent})
		s.SetName("GET /" + service)
		s.SetKind(kind)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(day.Add(time.Duration(id) * time.Millisecond)))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(day.Add(time.Duration(20-id) * time.Millisecond)))
		s.Attributes().PutStr("url.path", "/"+service)
		s.Status().SetCode(ptrace.StatusCodeError)
		s.Status().SetMessage(service + " failed")
		s.Events().AppendEmpty().SetName(service + " event")
		s.Links().AppendEmpty().Attributes().PutStr("to", service)
		return s
	}
	server, client := ptrace.SpanKindServer, ptrace.SpanKindClient
	root := add(own, 1, 1, 0, server)
	root.Attributes().PutStr(semconv.TraceState, semconv.StateUnlinked)
	root.Attributes().PutStr(semconv.TraceReason, "ends_at="+foreign)
	root.Attributes().PutStr(semconv.KeepReason, foreign)
	root.Attributes().PutStr(semconv.Behind, foreign)
	add(own, 1, 2, 1, client).Attributes().PutBool(semconv.PeerTraced, true)
	add(foreign, 1, 3, 2, server)
	add(foreign, 1, 4, 3, client)
	add(own, 1, 5, 4, server)
	add(foreign, 2, 6, 0, server)
	st, err := store.Open(store.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	ld := plog.NewLogs()
	for _, service := range []string{own, foreign} {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", service)
		r := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		r.SetTraceID(pcommon.TraceID{0: 0xa, 15: 1})
		r.Body().SetStr("log of " + service)
	}
	if err := errors.Join(st.Write(context.Background(), td), st.WriteLogs(context.Background(), ld)); err != nil {
		t.Fatal(err)
	}
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `tare_roots_total{sampled="true"} 3
tare_unanswered_tags{peer="%[1]s:80",sends_tags="true"} 3
tare_weighed_requests_total{service="%[1]s"} 3
tare_weighed_kernel_seconds_total{service="%[1]s"} 3
tare_weighed_kernel_seconds_total{service="%[2]s"} 3
tare_edge_request_duration_seconds_count{client="%[2]s",peer="%[1]s"} 3
tare_keep_traces_kept_total{reason="%[1]s"} 3
tare_new_metric{future_label="%[1]s"} 3
otelcol_exporter_sent_spans_total{exporter="otlp/%[1]s"} 3
`, foreign, own)
	}))
	t.Cleanup(metrics.Close)
	return st, metrics.URL
}

// ask asks as a reader who may see only its own service; with all, as one who may see everything.
func ask(t *testing.T, h http.Handler, path string, all bool) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = "localhost"
	if !all {
		r = r.WithContext(store.WithScope(r.Context(), &store.Scope{Services: []string{own}}))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(b)
}

const (
	lastDay   = "start=2024-05-01T00:00:00Z&end=2024-05-02T00:00:00Z"
	jaegerDay = "start=1714521600000000&end=1714608000000000"
	monitor   = "service=checkout&service=" + foreign + "&endTs=1714566600000&lookback=3600000&step=60000&ratePer=600000&spanKind=server&spanKind=client"
)

// queries are what is asked of every path: first with an answer that holds something of the reader's own service.
// A path that is served and is not here fails TestNothingOfForeignServices.
var queries = map[string][]string{
	"/":                      {"/", "/main.js", "/none"},
	"GET /api/v1/services":   {"/api/v1/services"},
	"GET /api/v1/operations": {"/api/v1/operations?service=checkout", "/api/v1/operations?service=" + foreign},
	"GET /api/v1/traces": {
		"/api/v1/traces?" + lastDay, "/api/v1/traces?service=" + foreign, "/api/v1/traces?calls=" + foreign, "/api/v1/traces?calls=(other+services)",
		"/api/v1/traces?operation=GET+/" + foreign, "/api/v1/traces?attr=url.path=/" + foreign, "/api/v1/traces?attr=url.path=*foreign*",
		"/api/v1/traces?attr=tare.behind!=x", "/api/v1/traces?attr=otel.scope.name=*for*", "/api/v1/traces?attr=otel.status_description=*foreign*",
		"/api/v1/traces?sort=duration", "/api/v1/traces?sort=spans", "/api/v1/traces?state=unlinked", "/api/v1/traces?limit=0",
	},
	"GET /api/v1/traces/{id}": {
		"/api/v1/traces/" + ownID, "/api/v1/traces/" + ownID + "?attributes=false", "/api/v1/traces/" + otherID,
		"/api/v1/traces/" + strings.Repeat("1", 32), "/api/v1/traces/x",
	},
	"GET /api/v1/traces/{id}/spans/{span}": {
		"/api/v1/traces/" + ownID + "/spans/0000000000000002", "/api/v1/traces/" + ownID + "/spans/0000000000000003",
		"/api/v1/traces/" + otherID + "/spans/0000000000000006",
	},
	"GET /api/v1/traces/{id}/otlp": {"/api/v1/traces/" + ownID + "/otlp", "/api/v1/traces/" + otherID + "/otlp"},
	"GET /api/v1/overview":         {"/api/v1/overview?" + lastDay, "/api/v1/overview?service=" + foreign},
	"GET /api/v1/diagnose":         {"/api/v1/diagnose?" + lastDay, "/api/v1/diagnose?service=" + foreign},
	"GET /api/v1/map":              {"/api/v1/map?" + lastDay},
	"GET /api/v1/latencies": {
		"/api/v1/latencies?" + lastDay, "/api/v1/latencies?by=operation&service=checkout&" + lastDay, "/api/v1/latencies?by=operation&service=" + foreign + "&" + lastDay,
	},
	"GET /api/v1/health": {"/api/v1/health"},
	"GET /api/v1/stats":  {"/api/v1/stats"},
	"/api/v1/":           {"/api/v1/none"},

	"GET /api/services":           {"/api/services"},
	"GET /api/services/{rest...}": {"/api/services/checkout/operations", "/api/services/" + foreign + "/operations", "/api/services/x"},
	"GET /api/operations":         {"/api/operations?service=checkout", "/api/operations?service=" + foreign},
	"GET /api/traces": {
		"/api/traces?service=checkout&" + jaegerDay, "/api/traces?service=" + foreign + "&" + jaegerDay, "/api/traces?traceID=" + ownID + "&traceID=" + otherID,
		"/api/traces?tags=%7B%22url.path%22%3A%22/" + foreign + "%22%7D&" + jaegerDay, "/api/traces?limit=x",
	},
	"GET /api/traces/{id}":    {"/api/traces/" + ownID, "/api/traces/" + otherID},
	"GET /api/dependencies":   {"/api/dependencies?endTs=1714608000000&lookback=86400000", "/api/dependencies?service=" + foreign + "&endTs=1714608000000&lookback=86400000"},
	"GET /api/metrics/{kind}": {"/api/metrics/calls?" + monitor, "/api/metrics/latencies?quantile=0.5&groupByOperation=true&" + monitor, "/api/metrics/errors?" + monitor, "/api/metrics/minstep", "/api/metrics/x"},
	"/api/":                   {"/api/none"},
}

// No answer, of any path, names what a reader may not see, not even when it is asked for by its name; and what it may
// see is there.
func TestNothingOfForeignServices(t *testing.T) {
	st, metrics := shared(t)
	h, patterns := handler(Options{Store: st, Health: []string{metrics}})
	for _, p := range patterns {
		if len(queries[p]) == 0 {
			t.Errorf("no query of %q: add some, and whatever keeps its answers to the reader's services", p)
		}
	}
	quiet := []string{"/", "/api/v1/", "/api/", "GET /api/v1/stats", "GET /api/v1/overview", "GET /api/v1/diagnose", "GET /api/v1/traces/{id}/spans/{span}"}
	for p, paths := range queries {
		if !slices.Contains(patterns, p) {
			t.Errorf("%q is not served", p)
		}
		for i, path := range paths {
			status, body := ask(t, h, path, false)
			asked, _ := url.QueryUnescape(path)
			text, err := url.QueryUnescape(strings.ReplaceAll(body, "+", " "))
			if err != nil {
				text = body
			}
			if p != "/" && strings.Contains(strings.ToLower(text), foreign) {
				t.Errorf("%s: %s", path, body)
			}
			if i == 0 && !slices.Contains(quiet, p) && !strings.Contains(body, own) {
				t.Errorf("%s has nothing of the reader's own service: %d %s", path, status, body)
			}
			if _, all := ask(t, h, path, true); i == 0 && p != "/" && !slices.Contains(quiet, p) && p != "GET /api/v1/operations" && p != "GET /api/services/{rest...}" &&
				p != "GET /api/operations" && !strings.Contains(all, foreign) {
				t.Errorf("%s has nothing of the foreign service for who may see it, so that the test shows nothing: %s", asked, all)
			}
		}
	}
}

// A trace that the reader may not see, and one that there is not, get the same answer; so do services.
func TestForeignIsAsAbsent(t *testing.T) {
	st, _ := shared(t)
	h, _ := handler(Options{Store: st})
	none := strings.Repeat("1", 32)
	for _, path := range []string{
		"/api/v1/traces/%s", "/api/v1/traces/%s/otlp", "/api/v1/traces/%s/spans/0000000000000006", "/api/traces/%s",
	} {
		a, foreignBody := ask(t, h, fmt.Sprintf(path, otherID), false)
		b, absent := ask(t, h, fmt.Sprintf(path, none), false)
		if a != b || foreignBody != absent || a != http.StatusNotFound {
			t.Errorf("%s: %d %s, and %d %s", path, a, foreignBody, b, absent)
		}
	}
	for _, path := range []string{
		"/api/v1/operations?service=%s", "/api/v1/traces?service=%s", "/api/v1/traces?calls=%s", "/api/v1/overview?service=%s", "/api/v1/latencies?by=operation&service=%s",
		"/api/services/%s/operations", "/api/operations?service=%s", "/api/traces?service=%s&" + jaegerDay, "/api/dependencies?service=%s&endTs=1714608000000",
		"/api/metrics/calls?endTs=1714566600000&service=%s", "/api/v1/traces?attr=url.path=/%s",
	} {
		a, foreignBody := ask(t, h, fmt.Sprintf(path, foreign), false)
		b, absent := ask(t, h, fmt.Sprintf(path, "zz-nothing"), false)
		if a != b || foreignBody != absent {
			t.Errorf("%s: %d %s, and %d %s", path, a, foreignBody, b, absent)
		}
	}
}

// Spans that are left out are counted, and what is missing because of them is not said to have been lost.
func TestLeftOutIsCounted(t *testing.T) {
	st, _ := shared(t)
	h, _ := handler(Options{Store: st})
	_, body := ask(t, h, "/api/v1/traces/"+ownID, false)
	var got struct {
		Hidden int `json:"hidden_spans"`
		State  string
		Reason string
		Keep   string
		Logs   []struct{ Service string }
		Spans  []struct {
			ID            string
			HiddenParent  bool `json:"hidden_parent"`
			MissingParent bool `json:"missing_parent"`
			MissingServer bool `json:"missing_server"`
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Hidden != 2 || len(got.Spans) != 3 || len(got.Logs) != 1 || got.Reason != "ends_at" || got.Keep != "" || got.State != semconv.StateUnlinked {
		t.Errorf("%+v", got)
	}
	for _, s := range got.Spans {
		if s.HiddenParent != (s.ID == "0000000000000005") || s.MissingParent || s.MissingServer {
			t.Errorf("%+v", s)
		}
	}
	if _, body := ask(t, h, "/api/traces/"+ownID, false); !strings.Contains(body, "2 spans are left out") || !strings.Contains(body, "the parent span is of a service that the reader may not see") {
		t.Error(body)
	}
	if _, body := ask(t, h, "/api/v1/stats", false); !strings.Contains(body, `"spans":3,"traces":0,"bytes":0`) || !strings.Contains(body, `"restricted":true`) {
		t.Error(body)
	}
	if _, body := ask(t, h, "/api/v1/map?"+lastDay, false); !strings.Contains(body, store.OtherServices) {
		t.Error(body)
	}
}

// Every request of an API is recorded once, before its answer is sent; if it cannot be, it is refused.
func TestAudit(t *testing.T) {
	st, _ := shared(t)
	var asked []Asked
	var fail error
	h, _ := handler(Options{Store: st, Audit: func(a Asked) error {
		asked = append(asked, a)
		return fail
	}})
	for _, c := range []struct {
		path, route, services string
		traces, status        int
	}{
		{"/api/v1/services", "GET /api/v1/services", "", 0, 200},
		{"/api/v1/traces?" + lastDay, "GET /api/v1/traces", own, 1, 200},
		{"/api/v1/traces?service=a+b", "GET /api/v1/traces", "a b", 0, 200},
		{"/api/v1/traces?limit=0", "GET /api/v1/traces", "", 0, 400},
		{"/api/v1/overview?" + lastDay, "GET /api/v1/overview", "", 1, 200},
		{"/api/v1/traces/" + ownID, "GET /api/v1/traces/{id}", own, 1, 200},
		{"/api/v1/traces/" + ownID + "/otlp", "GET /api/v1/traces/{id}/otlp", own, 1, 200},
		{"/api/v1/traces/" + ownID + "/spans/0000000000000002", "GET /api/v1/traces/{id}/spans/{span}", own, 1, 200},
		{"/api/v1/traces/" + otherID, "GET /api/v1/traces/{id}", "", 0, 404},
		{"/api/v1/none", "", "", 0, 404},
		{"/api/services/" + own + "/operations", "GET /api/services/{rest...}", own, 0, 200},
		{"/api/traces?service=" + own + "&" + jaegerDay, "GET /api/traces", own, 1, 200},
		{"/api/traces?traceID=" + ownID, "GET /api/traces", "", 1, 200},
		{"/api/traces/" + ownID, "GET /api/traces/{id}", own, 1, 200},
	} {
		asked = nil
		status, body := ask(t, h, c.path, false)
		if status != c.status || len(asked) != 1 {
			t.Fatalf("%s: %d, recorded %d times: %s", c.path, status, len(asked), body)
		}
		a := asked[0]
		if a.Route != c.route || strings.Join(a.Services, ",") != c.services || a.Traces != c.traces || a.Status != c.status || a.URL.RequestURI() != c.path {
			t.Errorf("%s: %+v", c.path, a)
		}
	}
	if asked = nil; true {
		if status, _ := ask(t, h, "/", false); status != 200 || len(asked) != 0 {
			t.Errorf("the page: %d, recorded %v", status, asked)
		}
	}
	fail = errors.New("disk full")
	for _, path := range []string{"/api/v1/traces/" + ownID, "/api/v1/traces/" + ownID + "/otlp", "/api/v1/services", "/api/traces/" + ownID, "/api/none"} {
		status, body := ask(t, h, path, false)
		if status != 503 || !strings.Contains(body, "cannot be recorded") || strings.Contains(body, own) || strings.Contains(body, "disk") || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
