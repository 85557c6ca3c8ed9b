package jaeger

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func parse(raw string) (search, error) {
	r := httptest.NewRequest("GET", "/", nil)
	r.URL = &url.URL{Path: "/", RawQuery: raw}
	return newParams(r).search(now)
}

// The shapes are those that Jaeger's page and Grafana's data source send.
func TestSearch(t *testing.T) {
	end := now.Add(time.Millisecond)
	micro := time.UnixMicro
	for raw, want := range map[string]search{
		// Grafana: logfmt tags become a JSON object of text.
		"end=1777636800000000&limit=20&maxDuration=5s&minDuration=1.2s&operation=GET+%2Fcart&service=shop&start=1777633200000000&tags=%7B%22error%22%3A%22true%22%2C%22http.status_code%22%3A%22500%22%7D": {Query: store.Query{
			Service: "shop", Operation: "GET /cart", MinDuration: 1200 * time.Millisecond, MaxDuration: 5 * time.Second, Limit: 20,
			Start: micro(1777633200000000), End: micro(1777636800000000), Status: store.Failed,
			Conditions: []store.Condition{{Key: "http.status_code", Also: "http.response.status_code", Value: "500"}}}},
		// Jaeger's page: what is empty is sent, too.
		"end=1777636800000000&limit=20&lookback=1h&maxDuration&minDuration&service=shop&start=1777633200000000": {Query: store.Query{
			Service: "shop", Limit: 20, Start: micro(1777633200000000), End: micro(1777636800000000)}},
		"service=shop&lookback=2d":     {Query: store.Query{Service: "shop", Limit: 100, Start: end.Add(-48 * time.Hour), End: end}},
		"service=shop&lookback=90m":    {Query: store.Query{Service: "shop", Limit: 100, Start: end.Add(-90 * time.Minute), End: end}},
		"service=shop&lookback=custom": {Query: store.Query{Service: "shop", Limit: 100, Start: end.Add(-48 * time.Hour), End: end}},
		"limit=1500&tag=span.kind:server&tag=a:b:c": {Query: store.Query{
			Limit: 1000, Kind: 2, Conditions: []store.Condition{{Key: "a", Value: "b:c"}}, Start: end.Add(-48 * time.Hour), End: end}},
		`tags={"http.status_code":500,"retry":false,"error":false}`: {Query: store.Query{
			Limit: 100, Status: store.NotFailed, Conditions: []store.Condition{
				{Key: "http.status_code", Also: "http.response.status_code", Value: "500"}, {Key: "retry", Value: "false"}},
			Start: end.Add(-48 * time.Hour), End: end}},
		"traceID=ab&traceID=0123456789abcdef0123456789abcdef&prettyPrint=true": {
			ids:   []pcommon.TraceID{{15: 0xab}, {1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}},
			Query: store.Query{Limit: 100, Start: end.Add(-48 * time.Hour), End: end}},
	} {
		got, err := parse(raw)
		if err != nil || !got.Start.Equal(want.Start) || !got.End.Equal(want.End) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
		got.Start, got.End, want.Start, want.End = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", raw, got, want)
		}
	}
}

func TestWrongParameters(t *testing.T) {
	for raw, allowed := range map[string]string{
		"limit=0":                                "at least 1",
		"limit=x":                                "at least 1",
		"start=x":                                "microseconds since 1970",
		"end=9223372036854775807":                "microseconds since 1970",
		"minDuration=5":                          "a duration such as",
		"minDuration=2s&maxDuration=1s":          "at least minDuration",
		"lookback=x":                             "1h or 2d",
		"lookback=-1h":                           "1h or 2d",
		"tag=x":                                  "key:value",
		"tags=x":                                 "a JSON object",
		`tags={"a":[1]}`:                         "text, numbers",
		"traceID=x":                              "hexadecimal",
		"traceID=0":                              "hexadecimal",
		"traceID=" + strings.Repeat("a", 33):     "hexadecimal",
		"service=" + strings.Repeat("a", 20_000): "longer than",
	} {
		_, err := parse(raw)
		var e *answer.Error
		if !errors.As(err, &e) || e.Status != 400 || !strings.Contains(e.Text, allowed) {
			t.Errorf("%.60s: %v, want 400 with %q", raw, err, allowed)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for _, q := range []string{
		"", `service=a&tags={"error":"true"}&start=1&end=2&limit=3`, "tag=a:b&lookback=2d&minDuration=1ms", "traceID=abc",
		"lookback=custom&start=9223372036854775807", "tags={\"\":1}",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := parse(raw)
		if err != nil {
			return
		}
		if s.Limit < 1 || s.Limit > maxTraces || s.MinDuration < 0 || s.MaxDuration < 0 || len(s.ids) > maxTraces ||
			len(s.Conditions) > maxConditions || s.Start.After(maxTime) || s.End.After(maxTime) {
			t.Errorf("%q: taken as %+v", raw, s)
		}
		for _, id := range s.ids {
			if back, err := parseTraceID(idText(id)); err != nil || back != id {
				t.Errorf("%q: %v is written as %s, read as %v, %v", raw, id, idText(id), back, err)
			}
		}
	})
}

func TestDependenciesAreRounded(t *testing.T) {
	got := links(store.Map{Edges: []store.Edge{
		{From: "b", To: "c", Weight: 2.6}, {From: "a", To: "b", Weight: 1, Traced: true}, {From: "a", To: "b", Weight: 1.4}, {From: "a", To: "x", Weight: 1e300},
	}}, "")
	if want := []dependency{{"a", "b", 2}, {"a", "x", 0}, {"b", "c", 3}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := links(store.Map{Edges: []store.Edge{{From: "a", To: "b", Weight: 1}, {From: "b", To: "c", Weight: 1}}}, "c"); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}
