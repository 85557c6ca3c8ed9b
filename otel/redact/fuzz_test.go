package redact

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
)

func everyAction(t testing.TB) *Redactor {
	c := full()
	for i := range c.Rules {
		switch c.Rules[i].Name {
		case "email", "credentials", "entropy":
			c.Rules[i].Do = Hash
		case "card", "signatures":
			c.Rules[i].Do = Keep
		case "phone", "bearer":
			c.Rules[i].Do = Remove
		case "userinfo":
			c.Rules[i].Do, c.Rules[i].Length = Truncate, 2
		}
	}
	c.Rules = append(c.Rules, Rule{Name: "cut", Keys: []string{"cut"}, Do: Truncate, Length: 20},
		Rule{Name: "keep", Keys: []string{"keep"}, Do: Keep, Keep: 16},
		Rule{Name: "xs", Pattern: `x+y?`, Do: Mask, Text: "zx"}) // finds its own mask
	c.Hash = Hashing{Key: "0123456789abcdef", ID: "f"}
	return mustNew(t, c)
}

// checkText checks what must hold for any text.
func checkText(t *testing.T, r *Redactor, key, s string) string {
	t.Helper()
	kv, ok := r.Attribute(attribute.String(key, s))
	if !ok {
		return ""
	}
	once := kv.Value.AsString()
	if utf8.ValidString(s) && !utf8.ValidString(once) {
		t.Errorf("%s=%q: valid UTF-8 became %q", key, s, once)
	}
	again, ok := r.Attribute(kv)
	if !ok || again.Value.AsString() != once {
		t.Errorf("%s=%q: once %q, twice %q", key, s, once, again.Value.AsString())
	}
	return once
}

// planted are secrets that must be found between spaces, whatever is around.
var planted = []string{
	"anna.schmidt@example.com", "4111111111111111", "5555 5555 5555 4444", token, aws, github, slack, stripe, google,
	"DE89370400440532013000", "password=hunter2x", `"api_key":"s3cr3tvalue"`, "https://root:t0ps3cret@db.internal/x",
}

func FuzzText(f *testing.F) {
	for _, p := range planted {
		f.Add(p, p)
	}
	for _, s := range []string{"", "%", "%4", "://", "password=[", "password=\\\"", "eyJ", "hmac-f-00", "\xff@\xff.\xff", "+1 ", "bearer ", "Cookie: '", "a@b@c.de", "://a:b/://c@d", "-----BEGIN PRIVATE KEY-----", "1.", "xoxb-xoxb-", "$a$", "'\\'", "***abcd", "xx", "é=", " --sid '", "<pwd>", "%3A%2F%2Fa%3Ab%40c", "\\u0026sid="} {
		f.Add(s, "")
		f.Add("", s)
	}
	plain, mixed := mustNew(f, full()), everyAction(f)
	secrets := []string{"anna.schmidt", "4111111111111111", "5555 5555 5555 4444", token, aws, github, slack, stripe, google, "DE89370400440532013000", "hunter2x", "s3cr3tvalue", "t0ps3cret"}
	f.Fuzz(func(t *testing.T, before, after string) {
		s := before + after
		for _, key := range []string{"k", "db.query.text", "client.address", "cut", "keep", "password", "k." + before} {
			checkText(t, plain, key, s)
			checkText(t, mixed, key, s)
		}
		if kv, _ := plain.Attribute(attribute.String("password", s)); kv.Value.AsString() != maskText {
			t.Errorf("a key rule lost: %q", kv.Value.AsString())
		}
		for i, p := range planted {
			if strings.Contains(s, secrets[i]) {
				continue
			}
			assert.NotContains(t, plain.Text(before+" "+p+" "+after), secrets[i], "%q + %q: leaves", before, after)
		}
	})
}

// FuzzConfig looks for configurations that panic, or for a Redactor that does.
func FuzzConfig(f *testing.F) {
	f.Add(`{"rules":[{"name":"a","keys":["*x*"],"names":["y"],"do":"keep","keep":3}]}`, "a@b.io y=1")
	f.Add(`{"base":"none","rules":[{"name":"a","pattern":"(a)|b","do":"truncate","length":1}],"allow":{"keys":["*"]}}`, "ab")
	f.Fuzz(func(t *testing.T, config, s string) {
		c, err := Parse([]byte(config))
		if err != nil {
			return
		}
		c.Hash.KeyFile, c.Hash.KeyEnv = "", ""
		r, err := New(c)
		if err != nil {
			return
		}
		for _, key := range []string{"k", "x", s} {
			checkText(t, r, key, s)
		}
		if once := r.Text(s); r.Text(once) != once {
			t.Errorf("%s: %q: once %q, twice %q", config, s, once, r.Text(once))
		}
	})
}

// TestFragments is the fuzz test's property on texts glued from the pieces
// that mean something, which chance rarely makes.
func TestFragments(t *testing.T) {
	pieces := append([]string{
		"=", ":", "\"", "'", "\\\"", "[", "]", "{", "}", "&", "%3D", "%40", "%26", "@", ".", " ", ",", ";", "\n", "+", "-", "_", "/", "://", "x", "é", "\xff",
		"password", "token", "Cookie", "bearer ", "Basic ", "eyJ", "AKIA", "4111", "1111", "49", "DE89", "example.com", "hmac-f-", "REDACTED", "***", "?", "SELECT ", "set ", "-----BEGIN ", "PRIVATE KEY-----", "$$", "::1", "10.0.0.1", " --sid ", "<pin>", "%3A%2F%2F", "\\u0026", "%2B",
	}, planted...)
	rng := rand.New(rand.NewPCG(1, 2))
	plain, mixed := mustNew(t, full()), everyAction(t)
	for range 5000 {
		var b strings.Builder
		for range 1 + rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		for _, key := range []string{"k", "db.query.text", "cut", "keep", "token", "client.address"} {
			checkText(t, plain, key, b.String())
			checkText(t, mixed, key, b.String())
		}
		if t.Failed() {
			return
		}
	}
}

// Nothing that holds for short texts may fail for long ones, and a walk that
// looked at bytes again and again would run into the test's time limit.
func TestLongTextsOfTriggers(t *testing.T) {
	r := everyAction(t)
	for _, piece := range []string{"a@", "://a:b/", "://a@", "eyJ.", "eyJaaaaaaaaaaa", "1 ", "1-", "+1", "password=", "password=[", "bearer ", "xoxb-", "AKIA", "-----BEGIN ", "'", "\"", "a:", "::", "a.b@c.", "%3D", "x%3D", "DE89", "$a$", "hmac-f-", "ghp_", ",a", "a%40", "%3A%2F%2Fa", "%3A%2F%2Fa:b", "--sid ", " --sid )", "<sid>", "é", "\\u0026sid=", "%2B1", "%3A", "a%3A"} {
		s := strings.Repeat(piece, 1<<16/len(piece))
		checkText(t, r, "k", s)
		checkText(t, r, "db.query.text", s)
	}
}
