// Package redacttest makes texts with secrets in them, labelled, to test whatever
// redacts: the classes of secrets, the forms in which they are written, and the
// places where they stand. Package redact measures itself with them (corpus.md),
// and pipelines that apply it check that nothing leaves another way.
//
// All of it comes from chance with a seed; nothing belongs to anybody. The texts
// change when the corpus grows: tests should compare, not quote.
package redacttest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// Class is a kind of text.
type Class struct {
	Name string
	Make func(*rand.Rand) string
}

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// Words are ASCII letters and digits.
	Words = lower + upper + digits
)

// Draw draws n characters of the set.
func Draw(r *rand.Rand, set string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = set[r.IntN(len(set))]
	}
	return string(b)
}

// Pick draws one.
func Pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// Classes are kinds of secrets.
var Classes = []Class{
	{"e-mail", func(r *rand.Rand) string {
		local := Pick(r, "anna", "bob", "li.wei", "j_smith", "maria+news", "o'connor", "x") + Pick(r, "", Draw(r, digits, 2), "."+Draw(r, lower, 5))
		return local + "@" + Pick(r, "example.com", "mail.example.co.uk", "exämple.de", Draw(r, lower, 7)+".io")
	}},
	{"card", func(r *rand.Rand) string {
		prefix := Pick(r, "4", "51", "55", "2221", "34", "37", "6011", "3528", "62", "36")
		n := 16
		if prefix == "34" || prefix == "37" {
			n = 15
		}
		number := []byte(prefix + Draw(r, digits, n-len(prefix)))
		for number[n-1] = '0'; !luhn(number); number[n-1]++ {
		}
		return string(number)
	}},
	{"IBAN", func(r *rand.Rand) string {
		country, n := "DE", 18
		switch r.IntN(3) {
		case 0:
			country, n = "GB", 18
		case 1:
			country, n = "FR", 23
		}
		bank := Draw(r, digits, n)
		if country == "GB" {
			bank = Draw(r, upper, 4) + bank[4:]
		}
		for check := 2; ; check++ {
			if iban := fmt.Sprintf("%s%02d%s", country, check, bank); mod97(iban) == 1 {
				return iban
			}
		}
	}},
	{"phone, E.164", func(r *rand.Rand) string {
		return "+" + Pick(r, "1", "44", "49", "81", "358") + Draw(r, digits[1:], 9)
	}},
	{"phone, national", func(r *rand.Rand) string { return "0" + Draw(r, digits[1:], 3) + "-" + Draw(r, digits, 7) }},
	{"JWT", func(r *rand.Rand) string {
		enc := base64.RawURLEncoding.EncodeToString
		return enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc([]byte(`{"sub":"`+Draw(r, digits, 10)+`"}`)) + "." + Draw(r, Words, 43)
	}},
	{"bearer token", func(r *rand.Rand) string { return "Bearer " + Draw(r, Words, 24+r.IntN(20)) }},
	{"basic credentials", func(r *rand.Rand) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(Draw(r, lower, 6)+":"+Draw(r, Words, 8+r.IntN(8))))
	}},
	{"AWS access key id", func(r *rand.Rand) string { return Pick(r, "AKIA", "ASIA") + Draw(r, upper+"234567", 16) }},
	{"AWS secret key, unnamed", func(r *rand.Rand) string { return Draw(r, Words+"+/", 40) }},
	{"GitHub token", func(r *rand.Rand) string { return Pick(r, "ghp", "gho", "ghs") + "_" + Draw(r, Words, 36) }},
	{"Slack token", func(r *rand.Rand) string {
		return "xoxb" + "-" + Draw(r, digits, 12) + "-" + Draw(r, digits, 12) + "-" + Draw(r, Words, 24)
	}},
	{"Stripe key", func(r *rand.Rand) string { return Pick(r, "sk", "rk") + "_live_" + Draw(r, Words, 24) }},
	{"Google API key", func(r *rand.Rand) string { return "AIza" + Draw(r, Words+"-_", 35) }},
	{"private key", func(r *rand.Rand) string {
		kind := Pick(r, "", "RSA ", "EC ", "OPENSSH ")
		return "-----BEGIN " + kind + "PRIVATE KEY-----\n" + Draw(r, Words, 64) + "\n" + Draw(r, Words, 64) + "\n-----END " + kind + "PRIVATE KEY-----"
	}},
	{"user and password in URL", func(r *rand.Rand) string {
		return Pick(r, "postgres", "amqp", "https", "redis") + "://" + Draw(r, lower, 5) + ":" + Draw(r, Words+"!$*-_", 10) + "@" + Pick(r, "db", "mq.internal", "10.0.0.7:5432") + "/x"
	}},
	{"US SSN", func(r *rand.Rand) string {
		return fmt.Sprintf("%03d-%02d-%04d", 100+r.IntN(500), 1+r.IntN(99), 1+r.IntN(9999))
	}},
	{"IPv4", func(r *rand.Rand) string {
		return fmt.Sprintf("%d.%d.%d.%d", 11+r.IntN(180), r.IntN(256), r.IntN(256), 100+r.IntN(156))
	}},
	{"password, unnamed", func(r *rand.Rand) string { return Draw(r, Words+"!#$*-_", 12) }},
}

// Hidden is the part of a secret that must not be seen.
func Hidden(class, secret string) string {
	switch class {
	case "bearer token", "basic credentials":
		_, secret, _ = strings.Cut(secret, " ")
	case "user and password in URL":
		_, rest, _ := strings.Cut(secret, "://")
		secret, _, _ = strings.Cut(rest, "@")
		_, secret, _ = strings.Cut(secret, ":")
	}
	return secret
}

// Form is a way to write a secret.
type Form struct {
	Name, About string
	Spell       func(string) string
}

// Forms begins with the plain one.
var Forms = []Form{
	{"plain", "as people write it", func(s string) string { return s }},
	{"grouped", "blocks of four parted by spaces", func(s string) string { return every(s, 4, " ") }},
	{"percent", "escaped as in a URL", url.QueryEscape},
	{"percent ×2", "escaped twice", func(s string) string { return url.QueryEscape(url.QueryEscape(s)) }},
	{"every byte", "each byte percent-encoded", func(s string) string {
		return "%" + strings.TrimSuffix(every(strings.ToUpper(hex.EncodeToString([]byte(s))), 2, "%"), "%")
	}},
	{"JSON \\u", "what is no letter or digit as \\u00xx", func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			if isLetter(c) || c >= '0' && c <= '9' || c >= 0x80 {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "\\u%04x", c)
			}
		}
		return b.String()
	}},
	{"cut", "the first two thirds, as a limit on lengths leaves", func(s string) string { return strings.ToValidUTF8(s[:len(s)*2/3], "") }},
	{"other case", "upper and lower case swapped", func(s string) string {
		return strings.Map(func(c rune) rune {
			if c < 0x80 && isLetter(byte(c)) {
				return c ^ 0x20
			}
			return c
		}, s)
	}},
	{"full width", "ASCII as its full-width twins (U+FF01…)", func(s string) string {
		return strings.Map(func(c rune) rune {
			if '!' <= c && c <= '~' {
				return c + 0xFEE0
			}
			return c
		}, s)
	}},
	{"zero width", "U+200B in the middle", func(s string) string {
		half := []rune(s)
		return string(half[:len(half)/2]) + "\u200b" + string(half[len(half)/2:])
	}},
	{"two lines", "a line break in the middle", func(s string) string {
		half := []rune(s)
		return string(half[:len(half)/2]) + "\n" + string(half[len(half)/2:])
	}},
	{"base64", "", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"hex", "", func(s string) string { return hex.EncodeToString([]byte(s)) }},
}

func every(s string, n int, between string) string {
	var parts []string
	runes := []rune(s)
	for len(runes) > n {
		parts = append(parts, string(runes[:n]))
		runes = runes[n:]
	}
	return strings.Join(append(parts, string(runes)), between)
}

// Place is a context. The names in it tell nothing: what is found is found by form.
type Place struct {
	Name, Key string // Key of the attribute that holds such texts
	Put       func(*rand.Rand, string) string
}

// Places are where secrets turn up.
var Places = []Place{
	{"URL", "url.full", func(r *rand.Rand, s string) string {
		return fmt.Sprintf("https://shop.test/api/v%d/items?page=%d&q=%s&sort=asc", 1+r.IntN(3), r.IntN(90), strings.NewReplacer(" ", "%20", "\n", "%0A", "&", "%26", "#", "%23", "+", "%2B", "@", "%40").Replace(s))
	}},
	{"JSON", "app.request.body", func(r *rand.Rand, s string) string {
		text, _ := json.Marshal(s) // a string always has JSON
		return fmt.Sprintf(`{"id":%d,"note":%s,"ok":true}`, r.IntN(1e6), strings.ReplaceAll(string(text), `\\u`, `\u`))
	}},
	{"log line", "exception.message", func(r *rand.Rand, s string) string {
		return fmt.Sprintf("2026-03-%02dT12:%02d:07Z WARN order %d rejected: %s (attempt %d)", 1+r.IntN(28), r.IntN(60), r.IntN(1e6), s, 1+r.IntN(5))
	}},
	{"SQL", "db.query.text", func(r *rand.Rand, s string) string {
		return fmt.Sprintf("UPDATE customers SET note = '%s' WHERE id = %d", strings.ReplaceAll(s, "'", "''"), r.IntN(1e6))
	}},
	{"stack trace", "exception.stacktrace", func(r *rand.Rand, s string) string {
		return fmt.Sprintf("panic: bad value %s\n\ngoroutine %d [running]:\nmain.handle(0xc%09x)\n\t/src/shop/main.go:%d +0x1d", s, r.IntN(900), r.IntN(1<<30), r.IntN(400))
	}},
	{"header", "app.dump", func(_ *rand.Rand, s string) string {
		return "Accept: */*\r\nX-Debug: " + s + "\r\nUser-Agent: curl/8.5.0"
	}},
}

// Spelling is a way to write a name and its secret.
type Spelling struct {
	Name string
	Put  func(name, secret string) string
}

// SecretNames tell that what they name is a secret.
var SecretNames = []string{"password", "api_key", "accessToken", "client-secret", "sessionId"}

// Spellings are how names and secrets are written.
var Spellings = []Spelling{
	{"URL parameter", func(n, s string) string { return "https://h.example/x?a=1&" + n + "=" + url.QueryEscape(s) + "&b=2" }},
	{"URL parameter within a parameter", func(n, s string) string {
		return "https://h.example/x?next=" + url.QueryEscape("/y?a=1&"+n+"="+s+"&b=2")
	}},
	{"form", func(n, s string) string { return "user=anna&" + n + "=" + url.QueryEscape(s) }},
	{"JSON", func(n, s string) string { return `{"user":"anna","` + n + `":"` + s + `","n":1}` }},
	{"JSON in a JSON string", func(n, s string) string { return `{"body":"{\"` + n + `\":\"` + s + `\",\"n\":1}"}` }},
	{"JSON, cut off", func(n, s string) string { return `{"user":"anna","` + n + `":"` + s }},
	{"header", func(n, s string) string { return "Accept: */*\r\n" + n + ": " + s + "\r\nHost: h.example" }},
	{"name=value in a log line", func(n, s string) string { return "login failed user=anna " + n + "=" + s + " attempt=3" }},
	{"Go struct (%+v)", func(n, s string) string { return "{User:anna " + n + ":" + s + " Attempt:3}" }},
	{"Go header map", func(n, s string) string { return "map[Accept:[*/*] " + n + ":[" + s + "]]" }},
	{"Python dict", func(n, s string) string { return "{'user': 'anna', '" + n + "': '" + s + "'}" }},
	{"YAML", func(n, s string) string { return "user: anna\n" + n + ": " + s + "\nport: 80" }},
	{"environment", func(n, s string) string {
		return "APP_" + strings.ToUpper(strings.ReplaceAll(n, "-", "_")) + "=" + s + " APP_PORT=80"
	}},
	{"flag with =", func(n, s string) string { return "app --user=anna --" + n + "=" + s }},
	{"flag with a space", func(n, s string) string { return "app --user anna --" + n + " " + s }},
	{"prose: name is value", func(n, s string) string { return "the " + n + " is " + s }},
	{"XML element", func(n, s string) string { return "<user>anna</user><" + n + ">" + s + "</" + n + ">" }},
	{"part of a path", func(n, s string) string { return "/reset/" + n + "/" + s }},
	{"multipart form", func(n, s string) string {
		return "Content-Disposition: form-data; name=\"" + n + "\"\r\n\r\n" + s + "\r\n--x--"
	}},
}

// Harmless are texts that should leave as they are.
var Harmless = []Class{
	{"16-digit order number", func(r *rand.Rand) string { return "order " + Draw(r, digits[1:], 16) }},
	{"timestamp, ns", func(r *rand.Rand) string { return fmt.Sprint(1.7e18 + r.Int64N(1e17)) }},
	{"snowflake id", func(r *rand.Rand) string { return fmt.Sprint(1.2e18 + r.Int64N(6e17)) }},
	{"list of numbers", func(r *rand.Rand) string {
		return fmt.Sprint("sizes ", r.IntN(1e4), " ", r.IntN(1e4), " ", r.IntN(1e4), " ", r.IntN(1e4), " ", r.IntN(1e4))
	}},
	{"UUID", func(r *rand.Rand) string {
		h := Draw(r, "0123456789abcdef", 32)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}},
	{"trace id, SHA", func(r *rand.Rand) string { return Draw(r, "0123456789abcdef", []int{32, 40, 64}[r.IntN(3)]) }},
	{"country letters and digits", func(r *rand.Rand) string { return "DE" + Draw(r, digits, 20) }},
	{"date and offset", func(r *rand.Rand) string {
		return fmt.Sprintf("2026-%02d-%02dT%02d:00:00+%02d:00", 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(13))
	}},
	{"module@version", func(r *rand.Rand) string {
		return fmt.Sprintf("/go/pkg/mod/github.com/%s/%s@v1.%d.%d/x.go:%d", Draw(r, lower, 6), Draw(r, lower, 5), r.IntN(50), r.IntN(9), r.IntN(900))
	}},
	{"git remote", func(r *rand.Rand) string { return "git@github.com:" + Draw(r, lower, 6) + "/x.git" }},
	{"URL with port and query", func(r *rand.Rand) string {
		return fmt.Sprintf("https://shop.example:8443/a/@%s/b?page=%d&sort=-price&ids=1,2,%d", Draw(r, lower, 5), r.IntN(90), r.IntN(1e5))
	}},
	{"version of four parts", func(r *rand.Rand) string {
		return fmt.Sprintf("app %d.%d.%d.%d", r.IntN(20), r.IntN(20), r.IntN(20), r.IntN(20))
	}},
	{"gRPC error", func(r *rand.Rand) string {
		return fmt.Sprintf("rpc error: code = Unavailable desc = dial tcp: lookup db-%d: no such host", r.IntN(100))
	}},
	{"user agent", func(r *rand.Rand) string {
		return fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", 90+r.IntN(60))
	}},
	{"long identifier", func(r *rand.Rand) string {
		return Pick(r, "get", "Find", "update") + Pick(r, "CustomerOrder", "PaymentMethod") + Pick(r, "ByIdAndStatus", "WithRetryPolicy") + Pick(r, "V2", "Async", "3Phase")
	}},
	{"Go function in a trace", func(r *rand.Rand) string {
		return fmt.Sprintf("net/http.(*conn).serve(0xc%09x, {0x7f%04x, 0xc%06x})", r.IntN(1<<30), r.IntN(1<<16), r.IntN(1<<24))
	}},
	{"base64 image", func(r *rand.Rand) string { return "data:image/png;base64,iVBORw0KGgo" + Draw(r, Words+"+/", 60) }},
	{"prose of credentials", func(r *rand.Rand) string {
		return Pick(r, "bearer authentication required", "basic auth is disabled", "the token has expired", "no cookie in request", "password does not match", "invalid api key")
	}},
	{"name, colon, prose", func(r *rand.Rand) string {
		return Pick(r, "password: must have 8 characters", "Unexpected token: }", "session: closed by peer", "secret: not found")
	}},
	{"counts of tokens", func(r *rand.Rand) string {
		return fmt.Sprintf("input_tokens=%d output_tokens=%d", r.IntN(1e4), r.IntN(1e4))
	}},
}
