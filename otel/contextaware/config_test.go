package contextaware

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func TestFromEnv(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	require.NoError(t, os.WriteFile(file, []byte(documented), 0o600))
	for _, value := range []string{documented, "\n " + documented + "\n", file, " " + file + " "} {
		t.Setenv(EnvRules, value)
		s, err := FromEnv(WithoutParent())
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if want := "ContextAware{rules:4,default:0.05}"; s.Description() != want {
			t.Errorf("%s: %s, want %s", value, s.Description(), want)
		}
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte("{\n  \"default\": 0.5,\n  \"rules\": [}\n"), 0o600))
	for value, want := range map[string][]string{
		"":            {EnvRules, "is not set", "default"},
		"/no/such":    {EnvRules, "/no/such", "no such file"},
		broken:        {EnvRules, broken, "line 3, column 13"},
		`{"x":1}`:     {EnvRules, `unknown field "x"`},
		`{"rules":[]`: {EnvRules, "ends too early"},
	} {
		t.Setenv(EnvRules, value)
		_, err := FromEnv()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%q:\n%v\nlacks %q", value, err, w)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string][]string{
		`{}`:                         {`"default" is missing`},
		`{"default":"1"}`:            {"line 1", "default"},
		`{"default":2}`:              {"default: 2 is not between 0 (never) and 1 (always)"},
		`{"default":0,"rules":[{}]}`: {`rule 1 {}: "probability" is missing`},
		`{"default":0,"rules":[1]}`:  {"rule 1 1: "},
		`{"default":0,"rules":{}}`:   {"rules"},
		`{"default":0,"rules":[{"probability":1},{"nam":"x","probability":1}]}`: {`rule 2 {"nam":"x","probability":1}`, `unknown field "nam"`},
		`{"rules":[{"probability":"all"},{"kind":3,"probability":1}]}`:          {`"default" is missing`, "rule 1", "probability", "rule 2", "kind"},
		`{"default":0,"rules":[{"kind":"srv","probability":1}]}`:                {`rule 1 {"kind":"srv"}: kind "srv" is none of`},
		`{"default":0,"rules":[{"` + strings.Repeat("x", 1000) + `":1}]}`:       {"…"},
	} {
		_, err := Parse([]byte(text))
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%.100s:\n%v\nlacks %q", text, err, w)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		documented, "", "{}", `{"default":0.5}`, `{"default":1e999}`, `{"default":0,"rules":[null,{"probability":1}]}`,
		`{"default":0,"rules":[{"baggage":{"a":"~("},"probability":1}]}`,
	} {
		f.Add([]byte(s))
	}
	ctx := withBaggage(context.Background(), f, "user.id", "42")
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if (s == nil) != (err != nil) {
			t.Fatalf("%v and %v", s, err)
		}
		if err != nil {
			return
		}
		if p := probability(t, s, sdktrace.SamplingParameters{ParentContext: ctx, Name: string(text)}); p < 0 || p > 1 {
			t.Fatalf("probability %g", p)
		}
	})
}
