package planted

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func attributes(key string, v *common.AnyValue) []*common.KeyValue {
	return []*common.KeyValue{{Key: key, Value: v}}
}

// message is one of OTLP with a span that change makes, of request n.
func message(t testing.TB, n uint64, change func(*trace.ResourceSpans, *trace.Span)) []byte {
	t.Helper()
	path, _, _ := strings.Cut(string(AppendPath(nil, n)), "?")
	s := &trace.Span{
		TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: "POST",
		Attributes: attributes("url.path", text(path)), Status: &trace.Status{},
	}
	rs := &trace.ResourceSpans{Resource: &resource.Resource{}, ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{}, Spans: []*trace.Span{s}}}}
	change(rs, s)
	b, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{rs}})
	require.NoError(t, err)
	return b
}

// A value is found wherever a message of OTLP can hold one, in the forms that are read.
func TestFinderLooksEverywhere(t *testing.T) {
	const n = 17
	v := Of(n).Secret(Attribute)
	set := func(f func(*trace.ResourceSpans, *trace.Span, string)) func(string) func(*trace.ResourceSpans, *trace.Span) {
		return func(s string) func(*trace.ResourceSpans, *trace.Span) {
			return func(rs *trace.ResourceSpans, span *trace.Span) { f(rs, span, s) }
		}
	}
	places := map[string]func(string) func(*trace.ResourceSpans, *trace.Span){
		"attribute": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) {
			s.Attributes = append(s.Attributes, attributes("a", text(v))...)
		}),
		"key": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) {
			s.Attributes = append(s.Attributes, attributes(v, text("x"))...)
		}),
		"array": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) {
			s.Attributes = append(s.Attributes, attributes("a", &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{text("x"), text(v)}}}})...)
		}),
		"map": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) {
			s.Attributes = append(s.Attributes, attributes("a", &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: attributes("b", text(v))}}})...)
		}),
		"bytes": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) {
			s.Attributes = append(s.Attributes, attributes("a", &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: []byte(v)}})...)
		}),
		"name":        set(func(_ *trace.ResourceSpans, s *trace.Span, v string) { s.Name = v }),
		"trace state": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) { s.TraceState = v }),
		"status":      set(func(_ *trace.ResourceSpans, s *trace.Span, v string) { s.Status.Message = v }),
		"event":       set(func(_ *trace.ResourceSpans, s *trace.Span, v string) { s.Events = []*trace.Span_Event{{Name: v}} }),
		"exception": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) {
			s.Events = []*trace.Span_Event{{Attributes: attributes("exception.message", text(v))}}
		}),
		"link": set(func(_ *trace.ResourceSpans, s *trace.Span, v string) {
			s.Links = []*trace.Span_Link{{Attributes: attributes("a", text(v))}}
		}),
		"scope": set(func(rs *trace.ResourceSpans, _ *trace.Span, v string) { rs.ScopeSpans[0].Scope.Name = v }),
		"resource": set(func(rs *trace.ResourceSpans, _ *trace.Span, v string) {
			rs.Resource.Attributes = attributes("a", text(v))
		}),
	}
	forms := map[string]struct {
		text  string
		found bool
	}{
		"alone":          {v.Core, true},
		"in a text":      {"a " + v.Text + ", b", true},
		"in JSON":        {`{"a":"` + v.Text + `"}`, true},
		"in a URL":       {"https://h.example/?q=" + url.QueryEscape(v.Text) + "&b=%zz%4", true},
		"in a URL twice": {url.QueryEscape("/y?q=" + url.QueryEscape(v.Text)), true},
		"every byte":     {everyByte(v.Core), true},
		"masked":         {"***", false},
		"cut":            {v.Core[:len(v.Core)-1], false},
		"another one":    {Of(n + 1).Secret(Attribute).Text, false},
	}
	for place, put := range places {
		for form, c := range forms {
			f := NewFinder(n, n+1)
			f.Add(message(t, n, put(c.text)))
			got := f.Counts()
			stored := Total(got.Secrets).Stored
			if want := map[bool]int{true: 1}[c.found]; stored != want || got.Bytes != want*len(v.Core) || got.Requests != 1 || got.Strays != 0 {
				t.Errorf("%s, %s: %+v", place, form, got)
			}
		}
	}
}

func everyByte(s string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("%" + string(digits[s[i]>>4]) + string(digits[s[i]&15]))
	}
	return b.String()
}

func TestCounts(t *testing.T) {
	const first, next = 100, 130
	f := NewFinder(first, next)
	for n := uint64(first - 2); n < next; n++ {
		if n%3 == 0 {
			continue // has no trace
		}
		f.Add(message(t, n, func(_ *trace.ResourceSpans, s *trace.Span) {
			for _, r := range Records(n) {
				if r.Place == Name {
					s.Name = r.Text
				} else {
					s.Attributes = append(s.Attributes, attributes(r.Key, text(r.Text))...)
				}
			}
		}))
	}
	const requests = 20
	got := f.Counts()
	secrets, decoys := Total(got.Secrets), Total(got.Decoys)
	if got.Requests != requests || got.Strays != 0 ||
		secrets != (Count{requests * len(Places), requests * len(Places)}) || decoys != (Count{requests * len(decoyed), requests * len(decoyed)}) {
		t.Errorf("%+v", got)
	}
	for _, p := range Places {
		assert.Equal(t, (Count{requests, requests}), got.Places[string(p)], p)
	}
	bytes := 0
	for n := uint64(first); n < next; n++ {
		if n%3 != 0 {
			for _, p := range Places {
				bytes += len(Of(n).Secret(p).Core)
			}
		}
	}
	assert.Equal(t, bytes, got.Bytes, "bytes of secrets")

	// What comes twice counts twice in bytes, and once as stored; without its path it is a stray.
	f = NewFinder(5, 7)
	v := Of(6).Secret(Event)
	f.Add([]byte(v.Text + " " + v.Text))
	if got := f.Counts(); got.Bytes != 2*len(v.Core) || got.Strays != 1 || got.Requests != 0 {
		t.Errorf("%+v", got)
	}
	if got := NewFinder(7, 7).Counts(); got.Requests != 0 || len(got.Secrets) != 0 {
		t.Errorf("no request: %+v", got)
	}
}

// Whatever is received is read, and a value within it is found.
func FuzzFinder(f *testing.F) {
	f.Add([]byte("%"), []byte("%4"), true)
	f.Add(message(f, 3, func(*trace.ResourceSpans, *trace.Span) {}), []byte(Path+"99999999999999999999.json"), false)
	f.Add([]byte("%25253"), []byte(Path), true)
	v := Of(3).Secret(SQL)
	f.Fuzz(func(t *testing.T, before, after []byte, escaped bool) {
		finder := NewFinder(3, 4)
		finder.Add(before)
		had := finder.Counts()
		core := v.Core
		if escaped {
			core = everyByte(core)
		}
		// A percent sign before it may take its first characters for its own; so may digits.
		body := append(append(append([]byte(nil), before...), ' ', ' '), core...)
		body = append(append(body, ' ', ' '), after...)
		finder = NewFinder(3, 4)
		finder.Add(body)
		if got := finder.Counts(); got.Bytes < had.Bytes+len(v.Core) {
			t.Errorf("%q: %+v, before it %+v", body, got, had)
		}
	})
}
