package rule

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, not []string
	}{
		{"/login", []string{"/login"}, []string{"", "/login/", "/Login", "x/login"}},
		{"*", []string{"", "abc", "é"}, []string{"/", "a/b"}},
		{"**", []string{"", "/", "a/b//c", "\xff"}, nil},
		{"/auth/**", []string{"/auth/", "/auth/a/b"}, []string{"/auth", "/authors/x"}},
		{"/auth**", []string{"/auth", "/auth/a", "/authors"}, []string{"/aut"}},
		{"/a/*/c", []string{"/a/b/c", "/a//c"}, []string{"/a/b/b/c", "/a/c"}},
		{"GET /health*", []string{"GET /health", "GET /healthz"}, []string{"GET /health/live", "POST /health"}},
		{"**/x*y/**z", []string{"/xy/z", "a/xx/xay/1/2z", "xy/xy/z"}, []string{"xy/", "x/y/z"}},
		{"*a/*b", []string{"xa/yb", "a/b", "aa/b"}, []string{"xa/ya/zb"}},
		{"?", []string{"a", "é", "\xff"}, []string{"", "/", "ab"}},
		{"*?", []string{"a", "é", "aé"}, []string{"", "/"}},
		{"*??", []string{"éa", "abc"}, []string{"é", "a"}},
		{`a\*b\?\\\~\n`, []string{`a*b?\~n`}, []string{"aab?\\~n"}},
		{`\~a`, []string{"~a"}, []string{"a"}},
		{"/v[0-9]{id}", []string{"/v[0-9]{id}"}, []string{"/v1{id}"}},
		{"a***b", []string{"ab", "a/b"}, []string{"a"}},
		{"~^/v[0-9]+/login$", []string{"/v1/login", "/v22/login"}, []string{"/v/login", "x/v1/login", "/v1/login/"}},
		{"~b", []string{"abc"}, []string{"ac"}},
		{"~^$", []string{""}, []string{"a"}},
		{"~(?i)get", []string{"GET /"}, []string{"POST /"}},
	} {
		p, err := CompilePattern(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		assert.Equal(t, c.pattern, p.String())
		for _, s := range c.yes {
			assert.True(t, p.Match(s), "%q does not match %q", c.pattern, s)
		}
		for _, s := range c.not {
			assert.False(t, p.Match(s), "%q matches %q", c.pattern, s)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                        "empty",
		`a\`:                      "backslash",
		"~(":                      "missing closing )",
		strings.Repeat("x", 4097): "4097 characters",
	} {
		if _, err := CompilePattern(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want one with %q", pattern, err, want)
		}
	}
}

// reference is the definition of a glob, as a regular expression.
func reference(tokens []token) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("(?s)^")
	for _, t := range tokens {
		b.WriteString(map[tokenKind]string{one: "[^/]", segment: "[^/]*", rest: ".*", literal: ""}[t.kind])
		b.WriteString(regexp.QuoteMeta(t.text))
	}
	b.WriteString("$")
	return regexp.MustCompile(b.String())
}

func differ(t *testing.T, pattern, s string) {
	t.Helper()
	tokens, err := compileGlob(pattern)
	if err != nil {
		return
	}
	if got, want := matchGlob(tokens, s), reference(tokens).MatchString(s); got != want {
		t.Fatalf("glob %q on %q: %v, by definition %v", pattern, s, got, want)
	}
}

func TestGlobIsWhatItsDefinitionSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet string, most int) string {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(b)
	}
	for range 30_000 {
		differ(t, text("ab/***?", 8), text("ab/", 10))
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{{"a*b", "aab"}, {"**/x*y/**z", "xy/xy/z"}, {`\*?`, "*é"}, {"*?", "\xffé"}, {"", ""}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 64 || len(s) > 256 {
			return
		}
		// RE2 reads invalid UTF-8 in a pattern as an error: not comparable.
		if strings.ToValidUTF8(pattern, "") != pattern {
			return
		}
		differ(t, pattern, s)
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("~a*")
	f.Add(`\?/`)
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" || len(Quote(s)) > maxPattern {
			return
		}
		p, err := CompilePattern(Quote(s))
		if err != nil || !p.isLiteral() || !p.Match(s) {
			t.Fatalf("%q quoted is %q: %v", s, Quote(s), err)
		}
	})
}
