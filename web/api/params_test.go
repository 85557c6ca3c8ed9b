package api

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func parse(raw string) (store.Query, error) {
	r := httptest.NewRequest("GET", "/", nil)
	r.URL.RawQuery = raw
	return searchQuery(newParams(r), now)
}

func TestSearchQuery(t *testing.T) {
	for raw, want := range map[string]store.Query{
		"": {Limit: 20},
		"service=shop&operation=GET+%2F&kind=client&min=1.5ms&max=2s&status=error&state=incomplete&roots=true&limit=1000&after=x": {
			Service: "shop", Operation: "GET /", Kind: 3, MinDuration: 1500 * time.Microsecond, MaxDuration: 2 * time.Second,
			Status: store.Failed, State: "incomplete", Roots: true, Limit: 1000, After: "x"},
		"status=ok&state=complete&roots=false&kind=internal": {Status: store.NotFailed, State: "complete", Kind: 1, Limit: 20},
		"attr=a=b&attr=" + url.QueryEscape("c=d=e") + "&attr=f=": {
			Conditions: []store.Condition{{Key: "a", Op: "=", Value: "b"}, {Key: "c", Op: "=", Value: "d=e"}, {Key: "f", Op: "="}}, Limit: 20},
		"attr=url.path=/check*&attr=" + url.QueryEscape("code>=500") + "&attr=" + url.QueryEscape("code<600") + "&attr=a!=b": {
			Conditions: []store.Condition{{Key: "url.path", Op: "~", Value: "/check*"}, {Key: "code", Op: ">=", Value: "500"},
				{Key: "code", Op: "<", Value: "600"}, {Key: "a", Op: "!=", Value: "b"}}, Limit: 20},
		"retro=any":         {Retro: semconv.RetroKept, Limit: 20},
		"retro=no_response": {Retro: semconv.RetroSetOf("no_response"), Limit: 20},
		"start=1777600000000&end=2026-05-01T12:00:00Z": {
			Start: time.UnixMilli(1777600000000), End: now, Limit: 20},
		"last=1h": {Start: now.Add(-time.Hour), End: now.Add(time.Millisecond), Limit: 20},
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

func TestWrongParametersSayWhatIsAllowed(t *testing.T) {
	for raw, allowed := range map[string]string{
		"limit=0":               "from 1 to 1000",
		"limit=1001":            "from 1 to 1000",
		"limit=x":               "from 1 to 1000",
		"min=5":                 "a duration such as",
		"max=-1s":               "a duration such as",
		"min=2s&max=1s":         "at least min",
		"status=bad":            "error, ok",
		"retro=failed":          "any, error, slow, no_response, reset, open, outside, capture",
		"state=done":            "complete, unlinked, incomplete",
		"kind=unspecified":      "internal, server, client, producer, consumer",
		"roots=yes":             "true or false",
		"attr=x":                "key=value",
		"attr==x":               "key=value",
		"attr=a%3Eb":            "<number",
		"attr=a=b&attr=a=c":     "each key once",
		"start=yesterday":       "milliseconds since 1970",
		"start=-5":              "milliseconds since 1970",
		"end=99999999999999999": "milliseconds since 1970",
		"start=2000&end=2000":   "a time after start",
		"last=1h&start=1":       "either last, or start and end",
		"last=0s":               "a duration such as",
		"last=":                 "a duration such as",
		"servce=a":              "the parameters here are service, operation",
		"service=a&service=b":   "only once",
		"a=%zz":                 "cannot be read",
		strings.Repeat("attr=a=b&", 33) + "attr=z=z": "at most 32",
		"after=" + strings.Repeat("x", 20_000):       "longer than",
	} {
		_, err := parse(raw)
		var e *answer.Error
		if !errors.As(err, &e) || e.Status != 400 || !strings.Contains(e.Text, allowed) {
			t.Errorf("%.60s: %v, want 400 with %q", raw, err, allowed)
		}
	}
}

func TestIDs(t *testing.T) {
	for text, ok := range map[string]bool{
		"0123456789abcdef0123456789ABCDEF": true, "0123456789abcdef": true, "": false, "0": false, "x": false,
		"00000000000000000000000000000000": false, "0123456789abcdef0123456789abcdeg": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetPathValue("id", text)
		if _, err := traceID(r); (err == nil) != ok {
			t.Errorf("trace id %q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"0123456789abcdef": true, "0123": false, "0123456789abcdeg": false, "": false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetPathValue("span", text)
		if _, err := spanID(r); (err == nil) != ok {
			t.Errorf("span id %q: %v", text, err)
		}
	}
}
