package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// Databases with a process or a thread for each connection. A query's text tells its
// request, where spans have it, and its length does.
func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]struct {
		needs []string
		named string // spans of a query
		text  string // db.query.text, a format of the number
		unix  string // the end of the path of the unix socket that it is asked over
	}{
		"postgres":                    {[]string{"python3", "postgres", "/usr/lib/python3/dist-packages/psycopg2"}, "SELECT", "SELECT ? AS n%05d, ?", ""},
		"mariadb":                     {[]string{"python3", "mariadbd", "/usr/lib/python3/dist-packages/pymysql"}, "SELECT", "SELECT ? AS n%05d, ?", ""},
		"postgres over a unix socket": {[]string{"python3", "postgres", "/usr/lib/python3/dist-packages/psycopg2"}, "SELECT", "SELECT ? AS n%05d, ?", "/postgres/.s.PGSQL."},
		"mariadb over a unix socket":  {[]string{"python3", "mariadbd", "/usr/lib/python3/dist-packages/pymysql"}, "SELECT", "SELECT ? AS n%05d, ?", "/mariadb/socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t, d.needs...)
			name, _, _ := strings.Cut(name, " ")
			c, s := newServers(t, name), newSink(t)
			if d.unix != "" {
				c.env = append(c.env, "UNIX="+c.g.Dir)
			}
			c.answers(python("threads")(c))
			a := trace(t, s, nil, c.ports...)
			a.proven(t, func() {
				send(t, load.Options{Addr: loopback(c.entry), Connections: 1, Requests: 20, AppendPath: numbered})
			})
			s.take()
			const requests = 2000
			send(t, load.Options{Addr: loopback(c.entry), Connections: 32, Requests: requests, AppendPath: numbered})
			m := a.settle()
			// A connection to the database is opened for each of the service's, before its
			// first request: what is said then belongs to no request, and begins traces.
			spans := below(s.all(), "service")
			want := branch{service: "service", kind: span.Server, name: "GET", below: []branch{{service: "service", kind: span.Client, name: d.named,
				below: []branch{{service: name, kind: span.Server, name: d.named}}}}}
			wantBranches(t, spans, want, m, requests, 0.999)
			wantNoErrors(t, s.all())
			for i := range spans {
				address, _ := spans[i].Attr("server.address")
				if d.unix != "" && !spans[i].Parent.IsZero() && !strings.Contains(address.Str, d.unix) {
					t.Fatalf("it is asked at %q, not at %s", address.Str, d.unix)
				}
			}
			number := func(root *span.Span) int {
				path, _ := root.Attr("url.path")
				n, err := strconv.Atoi(strings.TrimPrefix(path.Str, "/n/"))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			wantLengths(t, spans, number)
			wantTexts(t, spans, d.text, number)
		})
	}
}

// below are the spans of traces that begin with a request of a service.
func below(spans []span.Span, service string) []span.Span {
	roots := map[span.TraceID]bool{}
	for i := range spans {
		if spans[i].Parent.IsZero() && spans[i].Kind == span.Server && spans[i].Resource.Service == service {
			roots[spans[i].TraceID] = true
		}
	}
	return slices.DeleteFunc(spans, func(s span.Span) bool { return !roots[s.TraceID] })
}

// wantTexts requires that each query below a request has its number, "" that none has a text.
func wantTexts(t *testing.T, spans []span.Span, format string, number func(root *span.Span) int) {
	t.Helper()
	texts := map[span.TraceID]string{}
	for i := range spans {
		if spans[i].Parent.IsZero() && format != "" {
			texts[spans[i].TraceID] = fmt.Sprintf(format, number(&spans[i]))
		}
	}
	right, other := 0, ""
	for i := range spans {
		if spans[i].Parent.IsZero() {
			continue
		}
		if text, _ := spans[i].Attr("db.query.text"); text.Str == texts[spans[i].TraceID] {
			right++
		} else {
			other = describe(&spans[i])
		}
	}
	t.Logf("%d queries with the text of their request", right)
	if other != "" || right == 0 {
		t.Errorf("%d queries are right; another is %s", right, other)
	}
}

// ofLength counts the spans of one kind of one service that are below a request, and
// those of them whose length, without the number, is what it mostly is.
type ofLength struct {
	service   string
	kind      span.Kind
	all, most int
}

// lengthsOf are the lengths of spans where a request's number is in the length of its
// messages: the length without the number is the same for all spans of one kind of one
// service, if no trace holds spans of two requests.
func lengthsOf(spans []span.Span, number func(root *span.Span) int) []ofLength {
	numbers := map[span.TraceID]int{}
	for i := range spans {
		if spans[i].Parent.IsZero() {
			numbers[spans[i].TraceID] = number(&spans[i])
		}
	}
	groups := map[ofLength]map[int]int{} // length without number: how often
	for i := range spans {
		s := &spans[i]
		if n, ok := numbers[s.TraceID]; ok && !s.Parent.IsZero() {
			g := ofLength{service: s.Resource.Service, kind: s.Kind}
			if groups[g] == nil {
				groups[g] = map[int]int{}
			}
			groups[g][length(s)-n]++
		}
	}
	var counted []ofLength
	for g, lengths := range groups {
		for _, n := range lengths {
			g.all, g.most = g.all+n, max(g.most, n)
		}
		counted = append(counted, g)
	}
	return counted
}

// wantLengths requires that no trace holds spans of two requests, by their lengths.
func wantLengths(t *testing.T, spans []span.Span, number func(root *span.Span) int) {
	t.Helper()
	for _, l := range lengthsOf(spans, number) {
		t.Logf("%s %s: %d of %d spans below a request have its length", l.service, l.kind, l.most, l.all)
		if l.most < l.all {
			t.Errorf("%d of %d %s spans of %s are below another request", l.all-l.most, l.all, l.kind, l.service)
		}
	}
}

// length is how long a span's request was.
func length(s *span.Span) int {
	key := semconv.BytesReceived
	if s.Kind == span.Client {
		key = semconv.BytesSent
	}
	a, _ := s.Attr(key)
	n, _ := strconv.Atoi(a.Text())
	return n
}
