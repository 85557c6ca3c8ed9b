package assemble

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	spantext "github.com/tare-trace/tare/span/text"
)

func httpSpan(trace byte, kind ptrace.SpanKind, name string, attrs ...any) sp {
	s := sp{trace: trace, id: uint64(trace), kind: kind, host: "a", name: name, end: 5, attrs: map[string]any{}}
	for i := 0; i < len(attrs); i += 2 {
		s.attrs[attrs[i].(string)] = attrs[i+1]
	}
	return s
}

// Names that say method and path become method and route; all others stay.
func TestRoutes(t *testing.T) {
	const method, old = "http.request.method", "http.method"
	cases := []struct {
		span sp
		want string
	}{
		{httpSpan(1, server, "GET", method, "GET", "url.path", "/item/17"), "GET /item/{id}"},
		{httpSpan(2, server, "GET /item/18", method, "GET", "url.path", "/item/18"), "GET /item/{id}"},
		{httpSpan(3, server, "/item/19", old, "GET", "http.target", "/item/19?x=y"), "GET /item/{id}"},
		{httpSpan(4, server, "HTTP POST", old, "POST", "http.url", "http://shop/cart/7/pay"), "POST /cart/{id}/pay"},
		{httpSpan(5, server, "GET", method, "GET", "url.path", "/item/17", "http.route", "/item/:number"), "GET /item/:number"},
		{httpSpan(6, client, "GET", method, "GET", "url.full", "http://stock:80/part/9", "server.address", "stock"), "GET /part/{id}"},
		{httpSpan(7, client, "GET", method, "GET", "url.full", "http://stock/part/9", "url.template", "/part/{number}"), "GET /part/{number}"},
		{httpSpan(8, server, "HTTP", method, "_OTHER", "http.request.method_original", "BREW", "url.path", "/pot"), "HTTP /pot"},
		{httpSpan(9, server, "GET", method, "GET", "url.path", "/", "http.response.status_code", 200), "GET /"},
		// What is named by more, or is no HTTP request, or has no path.
		{httpSpan(10, server, "ShowItem", method, "GET", "url.path", "/item/17"), "ShowItem"},
		{httpSpan(11, server, "GET /item/:number", method, "GET", "url.path", "/item/17"), "GET /item/:number"},
		{httpSpan(12, client, "GET", "db.system.name", "redis", "url.path", "/item/17"), "GET"},
		{httpSpan(13, server, "GET", method, "GET"), "GET"},
		{httpSpan(14, internal, "GET", method, "GET", "url.path", "/item/17"), "GET"},
		{httpSpan(15, server, "shop.Cart/Get", "rpc.system.name", "grpc", "url.path", "/shop.Cart/Get"), "shop.Cart/Get"},
		// A part of a path is no route, and does not become one.
		{httpSpan(19, server, "GET", method, "GET", "url.path", "/cut/of", "tare.url.path.cut", true), "GET"},
		{httpSpan(20, server, "GET", method, "GET", "url.path", "/cut/of", "tare.url.path.cut", true, "http.route", "/cut/{word}"), "GET /cut/{word}"},
		// A scanner.
		{httpSpan(16, server, "GET", method, "GET", "url.path", "/wp-admin", "http.response.status_code", 404), "GET"},
		{httpSpan(17, server, "GET /.env", method, "GET", "url.path", "/.env", "http.response.status_code", 404), "GET"},
		{httpSpan(18, server, "GET", method, "GET", "url.path", "/item/999", "http.response.status_code", 404), "GET /item/{id}"},
	}
	f := newFixture(t, Options{LearnRoutes: true})
	for _, c := range cases {
		f.add(c.span)
	}
	f.after(time.Minute)
	got := map[uint64]ptrace.Span{}
	for _, g := range f.given {
		id := g.SpanID()
		got[uint64(id[7])] = g.Span
	}
	for _, c := range cases {
		s := got[c.span.id]
		if s.Name() != c.want {
			t.Errorf("%d, %s: named %s, want %s", c.span.id, c.span.name, s.Name(), c.want)
		}
		if _, ok := s.Attributes().Get("http.route"); ok && c.span.id != 5 && c.span.id != 20 {
			t.Errorf("%d: has a route that no framework gave", c.span.id)
		}
	}
	if n := f.a.Stats().Routes; n != [routeOutcomes]uint64{3, 8, 3} {
		t.Errorf("outcomes %v", n)
	}
}

// Words that have many values are grouped as soon as that is known, in late spans too,
// and by service: what one service has is a value says nothing about another.
func TestRoutesAreLearned(t *testing.T) {
	f := newFixture(t, Options{LearnRoutes: true})
	path := func(i int) string { return "/users/" + strings.Repeat("n", i+1) }
	for i := range 60 {
		f.add(httpSpan(byte(i+1), server, "GET", "http.request.method", "GET", "url.path", path(i), "tare.calls", 0))
	}
	late := httpSpan(60, server, "GET", "http.request.method", "GET", "url.path", path(2))
	late.id, late.parent = 99, 60
	f.add(late)
	other := httpSpan(61, server, "GET", "http.request.method", "GET", "url.path", path(0), "tare.calls", 0)
	other.host = "b"
	f.add(other)
	f.after(time.Minute)
	if len(f.given) != 62 {
		t.Fatalf("%d spans", len(f.given))
	}
	for i, want := range map[int]string{0: "GET " + path(0), 49: "GET " + path(49), 50: "GET /users/{id}", 59: "GET /users/{id}",
		60: "GET /users/{id}", 61: "GET " + path(0)} {
		if got := f.given[i].Name(); got != want {
			t.Errorf("span %d: %s, want %s", i, got, want)
		}
	}
	off := newFixture(t, Options{})
	off.add(httpSpan(1, server, "GET", "http.request.method", "GET", "url.path", "/a")).after(time.Minute)
	if got := fmt.Sprint(off.given[0].Name()); got != "GET" {
		t.Errorf("without LearnRoutes: %s", got)
	}
}

// A route as long as a name may be is too long with its method.
func TestLongRoute(t *testing.T) {
	f := newFixture(t, Options{LearnRoutes: true})
	long := "/" + strings.Repeat("r", spantext.MaxName-1)
	f.add(httpSpan(1, server, "GET", "http.request.method", "GET", "http.route", long))
	f.after(time.Minute)
	if name := f.given[0].Name(); name != spantext.Name("GET "+long, spantext.MaxName) || len(name) > spantext.MaxName {
		t.Errorf("the name has %d bytes: %.20s…", len(name), name)
	}
}
