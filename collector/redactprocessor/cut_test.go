package redactprocessor

import (
	"strings"
	"testing"

	"github.com/tare-trace/tare/span/text"
)

// A secret that a receiver cuts in two, wherever, leaves nothing of itself: neither in names nor in values.
func TestCutSecrets(t *testing.T) {
	// The secret itself is between two bars.
	for kind, with := range map[string]string{
		"email":       "|augusta.lovelace@analytical.example|",
		"card":        "|4111 1111 1111 1111|",
		"IBAN":        "|DE89 3704 0044 0532 0130 00|",
		"phone":       "|+49 30 901 820 123|",
		"bearer":      "Bearer |Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA|",
		"JWT":         "|eyJhbGciOiJIUzI1NiJ9." + strings.Repeat("Qw8Xy7", 120) + ".c2lnbmF0dXJl|",
		"in a URL":    "https://ada:|correcthorsebattery|@db.example:5432/",
		"parameter":   "https://shop.example/?a=1&token=|" + strings.Repeat("s3cr3t", 40) + "|",
		"header":      "Authorization: Basic |dXNlcjpwYXNzd29yZC1vZi1hZGE=|",
		"in JSON":     `{"password":"|a pass phrase of several words and more, ` + strings.Repeat("it goes on ", 40) + `|"}`,
		"private key": "-----BEGIN RSA " + "PRIVATE KEY-----\n|" + strings.Repeat("MIIEowIBAAKCAQEA7bq\n", 30) + "|-----END RSA PRIVATE KEY-----",
	} {
		parts := strings.Split(with, "|")
		secret := strings.Join(parts, "")
		for _, most := range []int{1024, 4096} {
			step := max(1, len(secret)/30)
			for inside := 0; inside <= len(secret)+step; inside += step {
				filler := strings.Repeat("word and ", most)[:most-inside-30]
				whole := filler + " " + secret + " " + strings.Repeat("more ", most)
				td, s := oneSpan()
				s.SetName(text.Name(whole, most))
				s.Status().SetMessage(text.Value(whole, most))
				s.Events().At(0).SetName(text.Name(whole, most))
				s.Attributes().PutStr("note", text.Value(whole, most))
				s.Attributes().PutEmptySlice("notes").AppendEmpty().SetStr(text.Value(whole, most))
				s.Attributes().PutEmptyMap("map").PutStr("note", text.Value(whole, most))
				_, mark := text.Split(s.Name())
				if mark == "" {
					t.Fatal("it was not cut")
				}
				out := run(t, &Config{}, td).ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
				var all []string
				all = append(all, out.Name(), out.Status().Message(), out.Events().At(0).Name())
				for _, v := range out.Attributes().All() {
					all = append(all, v.AsString())
				}
				for _, got := range all {
					for i := 0; i+6 <= len(parts[1]); i++ {
						if piece := parts[1][i : i+6]; strings.Contains(got, piece) {
							t.Fatalf("%s, %d of its bytes before the cut of %d: %q is left", kind, inside, most, piece)
						}
					}
					if !strings.Contains(got, "word and word") {
						t.Fatalf("%s: nothing is left of the text", kind)
					}
				}
				if _, left := text.Split(out.Name()); left != mark {
					t.Fatalf("%s: the name's mark %q became %q", kind, mark, left)
				}
			}
		}
	}
}

// Texts that only look as if they were cut are redacted as others; those that are not cut keep their end.
func TestUncutTexts(t *testing.T) {
	td, s := oneSpan()
	s.SetName("Loading…")
	s.Attributes().PutStr("a", "mail to ada@analytical.example…#soon")
	s.Attributes().PutStr("b", strings.Repeat("x", 200))
	s.Attributes().PutEmpty("c").SetStr("")
	out := run(t, &Config{}, td).ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	a, _ := out.Attributes().Get("a")
	b, _ := out.Attributes().Get("b")
	if out.Name() != "Loading…" || strings.Contains(a.Str(), "ada@") || !strings.HasPrefix(a.Str(), "mail to ") || b.Str() != strings.Repeat("x", 200) {
		t.Errorf("%q, %q, %q", out.Name(), a.Str(), b.Str())
	}
}
