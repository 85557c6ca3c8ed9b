package rule

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

func TestMatches(t *testing.T) {
	span := Span{
		Name: "GET /v1/login", Kind: trace.SpanKindServer,
		Attributes: []attribute.KeyValue{
			attribute.String("url.path", "/other"),
			attribute.String("url.path", "/v1/login"), // the last one counts
			attribute.Int("http.response.status_code", 503),
			attribute.Float64("ratio", 0.25),
			attribute.Bool("tls", true),
			attribute.StringSlice("http.request.header.x", []string{"a", "b"}),
			attribute.IntSlice("ports", []int{80, 443}),
			attribute.Float64Slice("ratios", []float64{1.5}),
			attribute.BoolSlice("flags", []bool{false}),
			attribute.ByteSlice("bytes", []byte("a")),
			attribute.Map("map", attribute.String("a", "b")),
			attribute.Slice("mixed", attribute.StringValue("a")),
			attribute.String("empty", ""),
		},
	}
	for text, want := range map[string]bool{
		`{}`:                       true,
		`{"name":"GET /v1/login"}`: true, `{"name":"GET *"}`: false, `{"name":"GET **"}`: true,
		`{"kind":"server"}`: true, `{"kind":"client"}`: false, `{"kind":"internal"}`: false,
		`{"name":"GET **","kind":"server","attributes":{"url.path":"~^/v[0-9]+/login$"}}`: true,
		`{"name":"GET **","kind":"client","attributes":{"url.path":"~^/v[0-9]+/login$"}}`: false,
		`{"name":"POST **","attributes":{"url.path":"/v1/login"}}`:                        false,
		`{"attributes":{"url.path":"/v1/login","tls":"false"}}`:                           false,
		`{"attributes":{"url.path":"/v1/login","tls":"true"}}`:                            true,
		`{"attributes":{"url.path":"/other"}}`:                                            false,
		`{"attributes":{"http.response.status_code":"503"}}`:                              true,
		`{"attributes":{"http.response.status_code":"5??"}}`:                              true,
		`{"attributes":{"http.response.status_code":"~^5"}}`:                              true,
		`{"attributes":{"http.response.status_code":"4??"}}`:                              false,
		`{"attributes":{"ratio":"0.25"}}`:                                                 true,
		`{"attributes":{"ratio":"~^0\\."}}`:                                               true,
		`{"attributes":{"http.request.header.x":"b"}}`:                                    true,
		`{"attributes":{"http.request.header.x":"c"}}`:                                    false,
		`{"attributes":{"ports":"443"}}`:                                                  true,
		`{"attributes":{"ports":"44"}}`:                                                   false,
		`{"attributes":{"ratios":"1.5"}}`:                                                 true,
		`{"attributes":{"flags":"false"}}`:                                                true,
		`{"attributes":{"flags":"true"}}`:                                                 false,
		`{"attributes":{"bytes":"**"}}`:                                                   false,
		`{"attributes":{"map":"**"}}`:                                                     false,
		`{"attributes":{"mixed":"**"}}`:                                                   false,
		`{"attributes":{"empty":"**"}}`:                                                   true,
		`{"attributes":{"empty":"~^$"}}`:                                                  true,
		`{"attributes":{"absent":"**"}}`:                                                  false,
	} {
		r, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		assert.Equal(t, want, r.Matches(span), text)
		assert.Equal(t, strings.Contains(text, "attributes"), r.UsesAttributes(), "%s: UsesAttributes", text)
	}
}

func TestKindUnspecifiedIsInternal(t *testing.T) {
	assert.True(t, MustCompile(Spec{Kind: "internal"}).Matches(Span{}), "a span without a kind is not internal")
	for text, kind := range kinds {
		if text != "" && (!MustCompile(Spec{Kind: text}).Matches(Span{Kind: kind}) || kind.String() != text) {
			t.Errorf("kind %q is %v", text, kind)
		}
	}
}

func TestErrorsNameTheRuleAndTheCondition(t *testing.T) {
	for text, want := range map[string][]string{
		``:                                     {"no JSON text"},
		`[]`:                                   {"cannot unmarshal array"},
		`{"name":1}`:                           {"line 1, column", "name"},
		`{"path":"/"}`:                         {`unknown field "path"`},
		"{\n \"name\": \"a\",\n}":              {"line 3, column 1"},
		`{"name":"a"} {}`:                      {"line 1, column 13: there is more text"},
		`{"name":"a"`:                          {"line 1, column 12: the JSON text ends too early"},
		`{"name":"~("}`:                        {`rule {"name":"~("}: name: pattern "~("`, "missing closing )"},
		`{"kind":"srv"}`:                       {`kind "srv" is none of internal, server`},
		`{"attributes":{"a":"","b":"~["}}`:     {"attribute a: the pattern is empty", `attribute b: pattern "~["`},
		`{"attributes":{"":"x"}}`:              {"a key is empty"},
		`{"name":"a\\","attributes":{"b":""}}`: {"name: pattern", "backslash", "attribute b"},
	} {
		_, err := Parse([]byte(text))
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s:\n%v\nlacks %s", text, err, w)
			}
		}
	}
	_, err := CompileAll(Spec{}, Spec{Name: `a\`}, Spec{Kind: "x"})
	for _, w := range []string{`rule 2 {"name":"a\\"}: name:`, `rule 3 {"kind":"x"}: kind`} {
		assert.ErrorContains(t, err, w)
	}
}

func TestMustCompilePanics(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, `kind "x"`) {
			t.Errorf("panic %q", v)
		}
	}()
	MustCompile(Spec{Kind: "x"})
}

func TestRuleKeepsNothingOfTheCaller(t *testing.T) {
	s := Spec{Attributes: map[string]string{"a": "1"}}
	r := MustCompile(s)
	s.Attributes["a"] = "2"
	if want := `{"attributes":{"a":"1"}}`; r.String() != want {
		t.Errorf("%s, want %s", r, want)
	}
}

func TestList(t *testing.T) {
	rules, err := CompileAll(Spec{Name: "GET /health*"}, Spec{Kind: "server"}, Spec{Name: "GET **"})
	require.NoError(t, err)
	var entries []Entry[float64]
	for i, r := range rules {
		entries = append(entries, Entry[float64]{r, float64(i) / 10})
	}
	l := NewList(entries...)
	entries[0].Value = 99
	for _, c := range []struct {
		span  Span
		index int
		value float64
	}{
		{Span{Name: "GET /healthz", Kind: trace.SpanKindServer}, 0, 0},
		{Span{Name: "GET /x", Kind: trace.SpanKindServer}, 1, 0.1},
		{Span{Name: "GET /x"}, 2, 0.2},
		{Span{Name: "POST /x"}, -1, 0},
	} {
		v, ok := l.Match(c.span)
		if i := l.Index(c.span); i != c.index || ok != (c.index >= 0) || v != c.value {
			t.Errorf("%+v: %d, %v, %v", c.span, i, v, ok)
		}
	}
	if l.Len() != 3 || l.UsesAttributes() || l.At(1).Rule != rules[1] {
		t.Errorf("%d rules, attributes %v", l.Len(), l.UsesAttributes())
	}
	with := NewList(entries[0], Entry[float64]{Rule: MustCompile(Spec{Attributes: map[string]string{"a": "b"}})})
	assert.True(t, with.UsesAttributes(), "a list with a condition on attributes does not use them")
	var empty List[int]
	if _, ok := empty.Match(Span{}); ok {
		t.Error("an empty list matches")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"name":"GET /health*","kind":"server","attributes":{"url.path":"/auth/**","http.route":"~^/v[0-9]+/login$"}}`,
		`{}`, `null`, `{"name":"~(a{1000}){1000}"}`, `{"attributes":{"":""}}`, "{\n}x",
	} {
		f.Add([]byte(s), "GET /healthz")
	}
	f.Fuzz(func(t *testing.T, text []byte, value string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse([]byte(r.String()))
		if err != nil || !reflect.DeepEqual(again.spec, r.spec) {
			t.Fatalf("%s is written %s: %v", text, r, err)
		}
		s := Span{Name: value}
		for _, c := range r.attributes {
			s.Attributes = append(s.Attributes, attribute.String(c.key, value), attribute.Int(c.key, len(value)))
		}
		require.Equal(t, again.Matches(s), r.Matches(s), "%s and %s differ on %+v", text, r, s)
	})
}
