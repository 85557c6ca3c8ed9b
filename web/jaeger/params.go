package jaeger

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

// Bounds of a query, and Jaeger's defaults.
const (
	maxQuery        = 16 << 10 // bytes
	maxConditions   = 32
	maxTraces       = 1000
	defaultTraces   = 100
	defaultLookback = 48 * time.Hour
)

// The latest time that the store can hold, rounded down: int64 nanoseconds.
var maxTime = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)

// params reads a query string and keeps the first error.
type params struct {
	url.Values
	err error
}

func newParams(r *http.Request) *params {
	p := &params{Values: r.URL.Query()}
	if len(r.URL.RawQuery) > maxQuery {
		p.err = answer.BadRequest("the query is longer than %d bytes", maxQuery)
	}
	return p
}

func (p *params) fail(name, allowed string) {
	if p.err == nil {
		value := p.Get(name)
		if len(value) > 100 {
			value = value[:100] + "…"
		}
		p.err = answer.BadRequest("unable to parse param '%s' %q: use %s", name, value, allowed)
	}
}

func (p *params) text(name string) string { return p.Get(name) }

// time is a number of units since 1970.
func (p *params) time(name string, unit time.Duration, otherwise time.Time) time.Time {
	v := p.Get(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > maxTime.UnixNano()/int64(unit) {
		p.fail(name, "a number of "+map[time.Duration]string{time.Microsecond: "microseconds", time.Millisecond: "milliseconds"}[unit]+
			" since 1970")
		return otherwise
	}
	return time.Unix(0, n*int64(unit))
}

func (p *params) milliseconds(name string, otherwise time.Duration) time.Duration {
	v := p.Get(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 || n > maxTime.UnixMilli() {
		p.fail(name, "a number of milliseconds")
		return otherwise
	}
	return time.Duration(n) * time.Millisecond
}

func (p *params) duration(name string) time.Duration {
	v := p.Get(name)
	if v == "" {
		return 0
	}
	d, err := duration.Parse(v)
	if err != nil || d < 0 {
		p.fail(name, "a duration such as 300ms or 1.5s")
	}
	return d
}

// lookback is how far before its end a search without start begins: a duration, which
// Jaeger's page also writes as 2d. With a start the page sends "custom".
func (p *params) lookback() time.Duration {
	v := p.Get("lookback")
	if v == "" || v == "custom" {
		return defaultLookback
	}
	d, err := duration.Parse(v)
	if err != nil || d <= 0 {
		p.fail("lookback", "a duration such as 1h or 2d")
		return defaultLookback
	}
	return d
}

// search is a request of /api/traces: traces by id, or by conditions.
type search struct {
	ids []pcommon.TraceID
	store.Query
}

func (p *params) search(now time.Time) (search, error) {
	s := search{Query: store.Query{
		Service: p.text("service"), Operation: p.text("operation"),
		MinDuration: p.duration("minDuration"), MaxDuration: p.duration("maxDuration"),
		Limit: defaultTraces,
	}}
	s.End = p.time("end", time.Microsecond, now.Add(time.Millisecond))
	s.Start = p.time("start", time.Microsecond, s.End.Add(-p.lookback()))
	if v := p.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			p.fail("limit", "a number of traces, at least 1")
		}
		s.Limit = min(n, maxTraces)
	}
	if s.MaxDuration > 0 && s.MaxDuration < s.MinDuration {
		p.fail("maxDuration", "a duration of at least minDuration")
	}
	for _, text := range p.Values["traceID"] {
		id, err := parseTraceID(text)
		if err != nil {
			return s, err
		}
		if s.ids = append(s.ids, id); len(s.ids) > maxTraces {
			p.fail("traceID", "at most 1000 of it")
			break
		}
	}
	p.tags(&s.Query)
	return s, p.err
}

// tags reads tag=key:value and tags={"key":"value"}.
func (p *params) tags(q *store.Query) {
	tags := map[string]string{}
	for _, t := range p.Values["tag"] {
		k, v, ok := strings.Cut(t, ":")
		if !ok || k == "" {
			p.fail("tag", "key:value")
			return
		}
		tags[k] = v
	}
	for _, t := range p.Values["tags"] {
		// Grafana sends all values as strings; people also write numbers and booleans.
		var some map[string]any
		dec := json.NewDecoder(strings.NewReader(t))
		dec.UseNumber()
		if err := dec.Decode(&some); err != nil {
			p.fail("tags", `a JSON object such as {"http.status_code":"500"}`)
			return
		}
		for k, v := range some {
			switch v := v.(type) {
			case string:
				tags[k] = v
			case json.Number:
				tags[k] = v.String()
			case bool:
				tags[k] = strconv.FormatBool(v)
			default:
				p.fail("tags", "text, numbers, true or false as values")
				return
			}
		}
	}
	if len(tags) > maxConditions {
		p.fail("tags", "at most 32 tags")
		return
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		condition(q, k, tags[k])
	}
}

// condition adds a tag to the query. Some tags are not attributes in OpenTelemetry:
// Jaeger derives them from a span's status and kind.
func condition(q *store.Query, key, value string) {
	lower := strings.ToLower(value)
	switch {
	case key == "error" && lower == "true", key == "otel.status_code" && lower == "error":
		q.Status = store.Failed
	case key == "error" && lower == "false":
		q.Status = store.NotFailed
	case key == "span.kind" && kindNumber(lower) > 0:
		q.Kind = kindNumber(lower)
	default:
		q.Conditions = append(q.Conditions, store.Condition{Key: key, Also: otherNames[key], Value: value})
	}
}

// otherNames are the attributes that the translator to Jaeger's terms renames: a search
// by either name finds what has the other.
var otherNames = map[string]string{
	"http.status_code":          "http.response.status_code",
	"http.response.status_code": "http.status_code",
}

// parseTraceID reads up to 32 hexadecimal digits; Jaeger leaves out leading zeros.
func parseTraceID(text string) (id pcommon.TraceID, err error) {
	if n := len(text); n > 0 && n <= 32 {
		_, err = hex.Decode(id[:], []byte(strings.Repeat("0", 32-n)+text))
	}
	if err != nil || id.IsEmpty() {
		if len(text) > 100 {
			text = text[:100] + "…"
		}
		return id, answer.BadRequest("cannot parse traceID %q: use 1 to 32 hexadecimal digits", text)
	}
	return id, nil
}
