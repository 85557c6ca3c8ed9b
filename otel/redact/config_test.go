package redact

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Setenv("REDACT_TEST_KEY", "0123456789abcdef\n")
	c, err := Parse([]byte(`{
		"without": ["phone"],
		"rules": [
			{"name": "user", "keys": ["enduser.*"], "do": "hash"},
			{"name": "mine", "pattern": "x+", "do": "mask", "text": "-"}
		],
		"allow": {"safe": true, "keys": ["shop.*"]},
		"hash": {"key_env": "REDACT_TEST_KEY", "bits": 128}
	}`))
	require.NoError(t, err)
	if n := len(Default().Rules); len(c.Rules) != n || c.Rules[0].Name != "mine" {
		t.Errorf("%d rules, first %q", len(c.Rules), c.Rules[0].Name)
	}
	r := mustNew(t, c)
	assert.Equal(t, "a- +4930123456", r.Text("axx +4930123456"))
	if _, ok := attr(t, r, "enduser.id", "bob"); ok {
		t.Error("enduser.id is not on the allow list")
	}
}

func TestErrorsNameTheRule(t *testing.T) {
	short := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(short, []byte("short"), 0o600))
	for text, want := range map[string]string{
		`{`:                         "configuration",
		`{"base":"x"}`:              `base "x"`,
		`{} {}`:                     "after the end",
		`{"ruls":[]}`:               `"ruls"`,
		`{"without":["nope"]}`:      `"nope"`,
		`{"rules":[{"do":"mask"}]}`: "rule 1 has no name",
		`{"rules":[{"name":"a","key":"x","do":"mask"}]}`:                                     `rule 1 "a"`,
		`{"rules":[{"name":"a","do":"mask"}]}`:                                               `"a": looks for nothing`,
		`{"rules":[{"name":"a","keys":["x"],"do":"burn"}]}`:                                  `"a": do "burn"`,
		`{"rules":[{"name":"a","keys":[""],"do":"mask"}]}`:                                   `"a": a key pattern is empty`,
		`{"rules":[{"name":"a","pattern":"(","do":"mask"}]}`:                                 `"a": pattern`,
		`{"rules":[{"name":"a","pattern":"x*","do":"mask"}]}`:                                "empty string",
		`{"rules":[{"name":"a","detect":"mail","do":"mask"}]}`:                               `detect "mail"`,
		`{"rules":[{"name":"a","detect":"email","pattern":"x","do":"mask"}]}`:                "two rules",
		`{"rules":[{"name":"a","detect":"email","names":["x"],"do":"mask"}]}`:                "two rules",
		`{"rules":[{"name":"a","detect":"query","do":"mask"}]}`:                              "needs keys",
		`{"rules":[{"name":"a","detect":"email","do":"network"}]}`:                           "detect ip only",
		`{"rules":[{"name":"a","detect":"ip","do":"network","v4":33}]}`:                      "33",
		`{"rules":[{"name":"a","keys":["x"],"do":"truncate"}]}`:                              "needs length",
		`{"rules":[{"name":"a","names":["x"],"do":"truncate","length":3}]}`:                  "names",
		`{"rules":[{"name":"a","keys":["x"],"do":"keep","keep":65}]}`:                        "keep 65",
		`{"rules":[{"name":"a","keys":["x"],"do":"hash","text":"x"}]}`:                       "text belongs",
		`{"rules":[{"name":"a","keys":["x"],"do":"hash"}]}`:                                  `"a": hash: give the key`,
		`{"rules":[{"name":"a","keys":["x"],"do":"hash"}],"hash":{"key":"x","key_env":"y"}}`: "exactly one",
		`{"rules":[{"name":"a","keys":["x"],"do":"hash"}],"hash":{"key":"x"}}`:               "at least 16",
		`{"hash":{"key_file":"` + short + `"}}`:                                              "holds 5 bytes",
		`{"hash":{"key_file":"/nonexistent"}}`:                                               "key_file",
		`{"hash":{"key":"0123456789abcdef","bits":63}}`:                                      "bits 63",
		`{"hash":{"key":"0123456789abcdef","id":"A-B"}}`:                                     `id "A-B"`,
		`{"hash":{"key":"0123456789abcdef","id":"abcdefghi"}}`:                               "longer",
		`{"allow":{}}`: "lists no keys",
		`{"base":"none","rules":[{"name":"a","keys":["x"],"do":"mask"},{"name":"b","keys":["x"],"do":"mask"},{"name":"a","keys":["x"],"do":"mask"}]}`: `named "a"`,
	} {
		c, err := Parse([]byte(text))
		if err == nil {
			_, err = New(c)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant …%s…", text, err, want)
		}
	}
}

func TestFromEnv(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redact.json")
	text := `{"base":"none","rules":[{"name":"only","keys":["x"],"do":"remove"}]}`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for v, rules := range map[string]int{"": len(Default().Rules), text: 1, path: 1} {
		t.Setenv(EnvConfig, v)
		if c, err := FromEnv(); err != nil || len(c.Rules) != rules {
			t.Errorf("%q: %d rules, %v", v, len(c.Rules), err)
		}
	}
	for _, v := range []string{"{", "/nonexistent"} {
		t.Setenv(EnvConfig, v)
		if _, err := FromEnv(); err == nil || !strings.Contains(err.Error(), EnvConfig) {
			t.Errorf("%q: %v", v, err)
		}
	}
}

func TestHashKeySources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600))
	t.Setenv("REDACT_TEST_KEY", "0123456789abcdef")
	tokens := map[string]bool{}
	for _, h := range []Hashing{{Key: "0123456789abcdef"}, {KeyEnv: "REDACT_TEST_KEY"}, {KeyFile: path}} {
		r := mustNew(t, Config{Rules: []Rule{{Name: "u", Keys: []string{"u"}, Do: Hash}}, Hash: h})
		v, _ := attr(t, r, "u", "bob")
		tokens[v] = true
	}
	assert.Equal(t, 1, len(tokens), "one key, several tokens: %v", tokens)
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"api_key", "X.Api-Key", true}, {"api_key", "apikey", true}, {"api_key", "api.key", false}, {"api_key", "my_api_key", false},
		{"*api_key*", "myApiKeyId", true}, {"http.*", "http.route", true}, {"http.*", "x.http.route", false},
		{"*", "", true}, {"a*b*c", "aXXbYYbc", true}, {"a*b*c", "aXXbYYb", false}, {"sid", "inside", false},
		{"user.id", "user.id", true}, {"user.id", "enduser.id", false}, {"x", "a[x]", true},
	} {
		g, err := newGlob(c.pattern)
		if err != nil || g.matches(c.key) != c.want {
			t.Errorf("%q on %q: want %v (%v)", c.pattern, c.key, c.want, err)
		}
	}
}

func TestRequiredLiteral(t *testing.T) {
	for pattern, want := range map[string]string{
		`TCK-\d+`: "TCK-", `a?bc`: "bc", `(?i)abc`: "", `a|b`: "", `(foo){2}x`: "foo", `\d+`: "", `(abc)+d`: "abc", `x(?i:abc)yz`: "yz", `(abc)?`: "",
	} {
		assert.Equal(t, want, requiredLiteral(pattern), pattern)
	}
}
