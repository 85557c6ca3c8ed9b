package semconv_test

import (
	"strings"
	"testing"

	"github.com/tare-trace/tare/span/semconv"
)

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		what, name string
		attributes []string
		want       string
	}{
		{"nothing", "GET", nil, ""},
		{"others", "GET", []string{"http.request.method", "GET", "server.address", "a"}, ""},
		{"a path", "GET", []string{"url.path", "/a/b"}, "/a/b"},
		{"a path before a URL", "GET", []string{"url.full", "http://h:1/x?q", "url.path", "/a"}, "/a"},
		{"a URL", "GET", []string{"url.full", "http://h:8080/x/y?token=1#f"}, "/x/y"},
		{"a URL without a path", "GET", []string{"url.full", "http://h?token=1"}, "/"},
		{"an old target", "GET", []string{"http.target", "/x?y"}, "/x"},
		{"an empty path and a URL", "GET", []string{"url.path", "", "url.full", "http://h/x"}, "/x"},
		{"a query", "GET", []string{"db.query.text", "SELECT *\n  FROM a\tWHERE b = '?'"}, "SELECT * FROM a WHERE b = '?'"},
		{"a name that says it", "GET /a", []string{"url.path", "/a"}, ""},
		{"a query that begins with the name", "GET", []string{"db.query.text", "GET item:17"}, "item:17"},
		{"a query that begins like the name", "GET", []string{"db.query.text", "GETEX a"}, "GETEX a"},
		{"no name", "", []string{"url.path", "/a"}, "/a"},
		{"a queue", "GET", []string{"messaging.destination.name", "orders"}, "orders"},
		{"long", "GET", []string{"db.query.text", strings.Repeat("a", 199) + "€uro"}, strings.Repeat("a", 199) + "…"},
	} {
		var target semconv.Target
		for i := 0; i < len(c.attributes); i += 2 {
			target.Take(c.attributes[i], c.attributes[i+1])
		}
		if got := target.Beside(c.name); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
