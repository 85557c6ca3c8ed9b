package api

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

// The latest time that the store can hold: 2^64 ns would be 2554, int64 2262.
var maxTime = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)

// maxQuery bounds the query string, maxAttributes the conditions in it.
const (
	maxQuery      = 16 << 10
	maxAttributes = 32
)

// params reads a query string and keeps the first error.
type params struct {
	values url.Values
	known  []string
	err    error
}

func newParams(r *http.Request) *params {
	p := &params{}
	if len(r.URL.RawQuery) > maxQuery {
		p.err = answer.BadRequest("the query is longer than %d bytes", maxQuery)
		return p
	}
	p.values, p.err = url.ParseQuery(r.URL.RawQuery)
	if p.err != nil {
		p.err = answer.BadRequest("the query cannot be read: %v", p.err)
	}
	return p
}

func (p *params) fail(name, text, allowed string) {
	if p.err == nil {
		p.err = answer.BadRequest("%s=%s: use %s", name, clip(text), allowed)
	}
}

// clip shortens a value for an error message.
func clip(s string) string {
	if len(s) > 100 {
		return strconv.Quote(s[:100]) + "…"
	}
	return strconv.Quote(s)
}

// text is the value of a parameter, "" if it is missing.
func (p *params) text(name string) string {
	p.known = append(p.known, name)
	v := p.values[name]
	if len(v) > 1 {
		p.fail(name, v[1], "each parameter but attr only once")
	}
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

// done returns the first error: that of a value, or of an unknown parameter.
func (p *params) done() error {
	if p.err != nil {
		return p.err
	}
	for name := range p.values {
		if !slices.Contains(p.known, name) {
			if len(p.known) == 0 {
				return answer.BadRequest("%s: no parameter is allowed here", clip(name))
			}
			return answer.BadRequest("%s: the parameters here are %s", clip(name), strings.Join(p.known, ", "))
		}
	}
	return nil
}

func (p *params) flag(name string, otherwise bool) bool {
	switch v := p.text(name); v {
	case "":
		return otherwise
	case "true", "1":
		return true
	case "false", "0":
		return false
	default:
		p.fail(name, v, "true or false")
		return otherwise
	}
}

func (p *params) number(name string, low, high, otherwise int) int {
	v := p.text(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		p.fail(name, v, fmt.Sprintf("a number from %d to %d", low, high))
	}
	return n
}

func (p *params) duration(name string) time.Duration {
	v := p.text(name)
	if v == "" {
		return 0
	}
	d, err := duration.Parse(v)
	if err != nil || d < 0 {
		p.fail(name, v, "a duration such as 300ms, 1.5s, 2h or 7d")
	}
	return d
}

// among is one of the words, "" if it is missing.
func (p *params) among(name string, words ...string) string {
	v := p.text(name)
	if v != "" && !slices.Contains(words, v) {
		p.fail(name, v, strings.Join(words, ", "))
	}
	return v
}

// retro is any, or a reason for which traces are kept retroactively.
func (p *params) retro(name string) semconv.RetroSet {
	const whatever = "any"
	switch v := p.among(name, append([]string{whatever}, semconv.RetroReasons[:]...)...); v {
	case whatever:
		return semconv.RetroKept
	default:
		return semconv.RetroSetOf(v)
	}
}

// timeRange is [start, end); zero times are unbounded.
func (p *params) timeRange(now time.Time) (start, end time.Time) {
	start, end = p.time("start"), p.time("end")
	last := p.duration("last")
	if last == 0 && p.values.Has("last") {
		p.fail("last", p.values.Get("last"), "a duration such as 15m, 1h or 7d")
	}
	if last > 0 {
		if !start.IsZero() || !end.IsZero() {
			p.fail("last", last.String(), "either last, or start and end")
		}
		// Until a millisecond after now, to include spans that were just written.
		return now.Add(-last), now.Add(time.Millisecond)
	}
	if !start.IsZero() && !end.IsZero() && !start.Before(end) {
		p.fail("end", end.Format(time.RFC3339Nano), "a time after start")
	}
	return start, end
}

func (p *params) time(name string) time.Time {
	v := p.text(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		var ms int64
		if ms, err = strconv.ParseInt(v, 10, 64); err == nil {
			t = time.UnixMilli(ms)
		}
	}
	if err != nil || t.Before(time.Unix(0, 0)) || t.After(maxTime) {
		p.fail(name, v, "milliseconds since 1970, or RFC 3339 such as 2026-01-31T12:00:00Z, up to 2262")
		return time.Time{}
	}
	return t
}

// attributes reads attr=key=value, attr=key>=number and so on, any number of times.
func (p *params) attributes() []store.Condition {
	p.known = append(p.known, "attr")
	values := p.values["attr"]
	if len(values) > maxAttributes {
		p.fail("attr", values[maxAttributes], fmt.Sprintf("at most %d conditions", maxAttributes))
		return nil
	}
	var out []store.Condition
	is := map[string]string{}
	for _, v := range values {
		c, err := store.ParseCondition(v)
		if err != nil {
			p.fail("attr", v, "key=value, where * in the value is any text (\\* a star), key!=value, or key<number, <=, >, >=")
			continue
		}
		if c.Op == store.Equal {
			if was, ok := is[c.Key]; ok && was != c.Value {
				p.fail("attr", v, "each key once: a span has one value of it")
			}
			is[c.Key] = c.Value
		}
		out = append(out, c)
	}
	return out
}

// traceID reads 32 hexadecimal digits of the path.
func traceID(r *http.Request) (id pcommon.TraceID, err error) {
	text := r.PathValue("id")
	if n, err := hex.Decode(id[:], []byte(padHex(text, 32))); err != nil || n != 16 || id.IsEmpty() {
		return id, answer.BadRequest("%s is not a trace id: use 32 hexadecimal digits, not all of them 0", clip(text))
	}
	return id, nil
}

// padHex makes a 64-bit trace id, as some systems print it, one of 128 bits;
// what has any other length is left for the decoder to refuse.
func padHex(s string, n int) string {
	if len(s) == 16 && n == 32 {
		return "0000000000000000" + s
	}
	if len(s) != n {
		return "-"
	}
	return s
}

func spanID(r *http.Request) (id pcommon.SpanID, err error) {
	text := r.PathValue("span")
	if n, err := hex.Decode(id[:], []byte(padHex(text, 16))); err != nil || n != 8 {
		return id, answer.BadRequest("%s is not a span id: use 16 hexadecimal digits", clip(text))
	}
	return id, nil
}
