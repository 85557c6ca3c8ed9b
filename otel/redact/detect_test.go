package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustNew(t testing.TB, c Config) *Redactor {
	t.Helper()
	r, err := New(c)
	require.NoError(t, err)
	return r
}

// full is Default with the optional detectors.
func full() Config {
	c := Default()
	c.Rules = append(c.Rules,
		Rule{Name: "ip", Detect: IP, Do: Network},
		Rule{Name: "ssn", Detect: SSN, Do: Mask},
		Rule{Name: "entropy", Detect: Entropy, Do: Mask},
	)
	return c
}

// Test keys are put together here, so that no scanner of repositories takes
// this file for a leak.
var (
	aws    = "AKIA" + "IOSFODNN7EXAMPLE"
	github = "ghp_" + strings.Repeat("a1B2", 9)
	slack  = "xoxb-" + "123456789012-abcdefABCDEF"
	stripe = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
	google = "AIza" + strings.Repeat("Sy1_-", 7)
	token  = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
	pem    = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nAAA=\n-----END RSA PRIVATE KEY-----"
)

func TestText(t *testing.T) {
	r := mustNew(t, Default())
	for _, c := range []struct{ name, in, want string }{
		{"email", "to bob@example.com, now", "to REDACTED, now"},
		{"email apostrophe", "o'brien@example.ie wrote", "REDACTED wrote"},
		{"email quoted", "user 'bob@example.com' unknown", "user 'REDACTED' unknown"},
		{"email percent", "/u?m=bob%40example.com&x=1", "/u?m=REDACTED&x=1"},
		{"email escaped parameter", "next=%2Fu%3Fm%3Dbob%40example.com", "next=%2Fu%3Fm%3DREDACTED"},
		{"email utf-8", "an jürgen@müller.de.", "an REDACTED."},
		{"email two", "a@b.io,c@d.io", "REDACTED,REDACTED"},
		{"module version", "otel@v1.47.0/attribute/value.go:12", "otel@v1.47.0/attribute/value.go:12"},
		{"npm version", "lodash@4.17.21", "lodash@4.17.21"},
		{"at alone", "@ a@ @b a@b", "@ a@ @b a@b"},
		{"card", "pay 4111111111111111", "pay REDACTED"},
		{"card spaces", "pay 4111 1111 1111 1111!", "pay REDACTED!"},
		{"card dashes", "5555-5555-5555-4444", "REDACTED"},
		{"card amex", "3782 822463 10005", "REDACTED"},
		{"card url", "?n=4111%201111%201111%201111&x", "?n=REDACTED&x"},
		{"card after number", "2024 4111 1111 1111 1111", "2024 REDACTED"},
		{"card 19", "6304000000000000000x", "6304000000000000000x"},
		{"no luhn", "4111111111111112", "4111111111111112"},
		{"timestamp", "1700000000000000000 1700000000000", "1700000000000000000 1700000000000"},
		{"hex", "a4111111111111111b", "a4111111111111111b"},
		{"fraction", "0.4111111111111111", "0.4111111111111111"},
		{"jwt", "t " + token + ".", "t REDACTED"},
		{"jwt cut", "t eyJhbGciOiJIUzI1NiJ9.eyJzdWIi", "t REDACTED"},
		{"no jwt", "eyJ eyJhbGciOiJI abceyJhbGciOiJIUzI1NiJ9.abc.def", "eyJ eyJhbGciOiJI abceyJhbGciOiJIUzI1NiJ9.abc.def"},
		{"bearer", "sent Bearer abcdef123456==", "sent Bearer REDACTED"},
		{"bearer prose", "bearer authentication failed, basic authentication too", "bearer authentication failed, basic authentication too"},
		{"basic", "Basic dXNlcjpwYXNzd29yZA==", "Basic REDACTED"},
		{"keys", strings.Join([]string{aws, github, slack, stripe, google}, " "), "REDACTED REDACTED REDACTED REDACTED REDACTED"},
		{"key inside word", "x" + aws, "x" + aws},
		{"private key", "key " + pem + " end", "key REDACTED end"},
		{"private key cut", "key " + pem[:50], "key REDACTED"},
		{"public key", "-----BEGIN PUBLIC KEY-----\nAAA", "-----BEGIN PUBLIC KEY-----\nAAA"},
		{"iban", "DE89370400440532013000 GB82 WEST 1234 5698 7654 32", "REDACTED REDACTED"},
		{"iban wrong", "DE88370400440532013000", "DE88370400440532013000"},
		{"phone", "call +49 (30) 1234-5678.", "call REDACTED."},
		{"phone url", "?p=%2B4930123456", "?p=REDACTED"},
		{"offset", "2024-01-01T00:00:00+02:00 UTC+0200", "2024-01-01T00:00:00+02:00 UTC+0200"},
		{"userinfo", "postgres://app:s3cr3t@db:5432/x", "postgres://REDACTED:REDACTED@db:5432/x"},
		{"userinfo slash", "amqp://app:s3/cr#3t@mq/x", "amqp://REDACTED:REDACTED@mq/x"},
		{"userinfo user", "https://bob@example.com/", "https://REDACTED@example.com/"},
		{"userinfo in a parameter", "?next=https%3A%2F%2Fbob%3As3cr3t%40h.example%2Fx&y=1", "?next=https%3A%2F%2FREDACTED%3AREDACTED%40h.example%2Fx&y=1"},
		{"userinfo, @ escaped", "q=pg://bob:s3cr3t%40db/x", "q=pg://REDACTED:REDACTED%40db/x"},
		{"git remote", "git@github.com:o/r", "git@github.com:o/r"},
		{"email utf-8 escaped", "?m=a%40ex%C3%A4mple.de&x", "?m=REDACTED&x"},
		{"private key in URL", "?k=-----BEGIN%20PRIVATE%20KEY-----%0AAAA%0A-----END%20PRIVATE%20KEY-----&x", "?k=REDACTED&x"},
		{"at in path", "https://example.com:8080/@bob", "https://example.com:8080/@bob"},
		{"prose", "rpc error: code = Unavailable desc = connection refused 10.0.0.1:443 at 12:30:45", "rpc error: code = Unavailable desc = connection refused 10.0.0.1:443 at 12:30:45"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := r.Text(c.in); got != c.want {
				t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	r := mustNew(t, Default())
	for _, c := range []struct{ name, in, want string }{
		{"query", "https://h/x?token=abc&q=1#f", "https://h/x?token=REDACTED&q=1#f"},
		{"nested parameter", "user[password]=abc&user[name]=x", "user[password]=REDACTED&user[name]=x"},
		{"escaped query", "r=%2Fx%3Ftoken%3Dabc%26y%3D1", "r=%2Fx%3Ftoken%3DREDACTED%26y%3D1"},
		{"signature", "?X-Amz-Signature=f00d&sig=beef&design=1", "?X-Amz-Signature=REDACTED&sig=REDACTED&design=1"},
		{"json", `{"password":"hun\"ter2","n":1}`, `{"password":"REDACTED","n":1}`},
		{"json number", `{"pin": 1234, "n":1}`, `{"pin": REDACTED, "n":1}`},
		{"json array", `{"tokens":1,"api_key":["a","b"]}`, `{"tokens":1,"api_key":[REDACTED]}`},
		{"json in json", `{\"accessToken\":\"abc\",\"n\":1}`, `{\"accessToken\":\"REDACTED\",\"n\":1}`},
		{"json escaped for url", "%7B%22password%22%3A%22abc%22%7D", "%7B%22password%22%3A%22REDACTED%22%7D"},
		{"cut json", `{"password":"hunt`, `{"password":"REDACTED`},
		{"header", "Authorization: Custom a b c\r\nHost: x", "Authorization: REDACTED\r\nHost: x"},
		{"cookie", "Cookie: a=b; c=d\nHost: x", "Cookie: REDACTED\nHost: x"},
		{"curl", "-H 'Authorization: Bearer a b' https://h", "-H 'Authorization: REDACTED' https://h"},
		{"go header", "map[Authorization:[Bearer abc] Host:[x]]", "map[Authorization:[REDACTED] Host:[x]]"},
		{"log", "user=x, password=abc, n=1", "user=x, password=REDACTED, n=1"},
		{"comma in value", "password=a,b next", "password=REDACTED next"},
		{"spaces", "password = 'abc' and", "password = 'REDACTED' and"},
		{"struct", "{User:bob Password:hunter2}", "{User:bob Password:REDACTED}"},
		{"ruby", `"password"=>"abc"`, `"password"=>"REDACTED"`},
		{"dsn", "host=db password=abc user=x", "host=db password=REDACTED user=x"},
		{"counts", "input_tokens=12 total_tokens: 3", "input_tokens=12 total_tokens: 3"},
		{"go json", `"u":"/x?a=1\u0026sid=abc\u0026b=2"`, `"u":"/x?a=1\u0026sid=REDACTED\u0026b=2"`},
		{"escaped lines", `a: b\npwd: c`, `a: b\npwd: REDACTED`},
		{"flag", "app --password hunter2 --token --sid 'x y' -v", "app --password REDACTED --token --sid 'REDACTED' -v"},
		{"xml", "<a><wsse:Password>x y</wsse:Password><b>z</b></a>", "<a><wsse:Password>REDACTED</wsse:Password><b>z</b></a>"},
		{"empty", "password=&x=1", "password=&x=1"},
		{"scheme", "auth=Bearer abc x", "auth=REDACTED x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.Text(c.in)
			if got != c.want {
				t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

func TestOptionalDetectors(t *testing.T) {
	r := mustNew(t, full())
	random := "Zm9v" + "Qx7LpT2vKd9RbN4wYc8HsE3u"
	for _, c := range []struct{ in, want string }{
		{"from 203.0.113.77:80", "from 203.0.113.0:80"},
		{"from 2001:db8:1:2::3, ok", "from 2001:db8:1::, ok"},
		{"[2001:db8:1:2::3]:443", "[2001:db8:1::]:443"},
		{"a=2001%3Adb8%3A1%3A2%3A%3A3&b=1", "a=2001:db8:1::&b=1"},
		{"a%3D2001%3adb8%3a1%3a2%3a%3a3", "a%3D2001:db8:1::"},
		{"at%3A12%3A30%3A45 a%3Ab%3Ac", "at%3A12%3A30%3A45 a%3Ab%3Ac"},
		{"at 12:30:45 v1.2.3.4.5", "at 12:30:45 v1.2.3.4.5"},
		{"ssn 536-22-1234.", "ssn REDACTED."},
		{"no 666-22-1234 536-00-1234 1536-22-1234", "no 666-22-1234 536-00-1234 1536-22-1234"},
		{"k " + random, "k REDACTED"},
		{"id 4bf92f3577b34da6a3ce929d0e0e4736 getUserByIdAndStatusOrNull2", "id 4bf92f3577b34da6a3ce929d0e0e4736 getUserByIdAndStatusOrNull2"},
	} {
		if got := r.Text(c.in); got != c.want {
			t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}

func TestQuery(t *testing.T) {
	r := mustNew(t, Default())
	for _, c := range []struct{ in, want string }{
		{"SELECT * FROM t1 WHERE a = 'x''y' AND b=12 AND c=$1", "SELECT * FROM t1 WHERE a = ? AND b=? AND c=$1"},
		{`SELECT "a"."b" FROM "t" WHERE "c" = "d"."e"`, `SELECT "a"."b" FROM "t" WHERE "c" = "d"."e"`},
		{`INSERT INTO t ("a") VALUES ("secret", 3)`, `INSERT INTO t ("a") VALUES (?, ?)`},
		{`SELECT 1 WHERE n LIKE "sec%" OR x IN ("s1")`, `SELECT ? WHERE n LIKE ? OR x IN (?)`},
		{`SELECT a WHERE p='it\'s secret' AND q='y'`, `SELECT a WHERE p=?`},
		{`SELECT a WHERE p='unterminated`, `SELECT a WHERE p=?`},
		{"SELECT $q$it's$q$, 0xFF /* don't */ -- it's", "SELECT ?, ? /* don't */ -- it's"},
		{"SET search_path = 'x'", "SET search_path = ?"},
		{"set cart:1 the secret", "set cart:1 ?"},
		{"set session:4f2a x", "set session:REDACTED ?"},
		{"auth hunter2", "auth ?"},
		{"get a\nhset k f v\nsecond line of a value", "get a\nhset k ?\n?"},
		{`{"find":"users","filter":{"n":1.5,"m":"x"},"ok":true}`, `{"find":"?","filter":{"n":?,"m":"?"},"ok":true}`},
		{"MATCH (n {name: 'Bob'}) RETURN n", "MATCH (n {name: ?}) RETURN n"},
		{"", ""},
	} {
		if got, _ := attr(t, r, "db.query.text", c.in); got != c.want {
			t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}
