package integration

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// exchange sends one request as it stands here over a connection of its own;
// it must be answered with 200.
func exchange(t *testing.T, address, request string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, testkit.Patient(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patient(5 * time.Second)))
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%q: status %d", request, resp.StatusCode)
	}
}

// rootOf is the proxy's server span of request n, if there is one.
func rootOf(spans []span.Span, path string) (span.Span, bool) {
	for _, s := range spans {
		if p, ok := s.Attr("url.path"); ok && p.Str == path && s.Kind == span.Server && s.Resource.Service == "proxy" {
			return s, true
		}
	}
	return span.Span{}, false
}

const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentSpan  = "00f067aa0ba902b7"
	parent      = "00-" + parentTrace + "-" + parentSpan + "-01"
)

func get(path, headers string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: test\r\n" + headers + "Connection: close\r\n\r\n"
}

// A traceparent header of a trusted peer is adopted, its decision included:
// at a ratio of 0, only requests that come with a sampled one are traced.
func TestTraceparentAdopted(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append(ports(c), ratio("0")...)...)
	filler := "X-Filler: " + strings.Repeat("x", 600) + "\r\n"
	cases := []struct {
		name, headers string
		sampled       bool
	}{
		{"sampled", "traceparent: " + parent + "\r\n", true},
		{"capital letters in the name", "Traceparent: " + parent + "\r\n", true},
		{"all capitals", "TRACEPARENT: " + parent + "\r\n", true},
		{"no space", "traceparent:" + parent + "\r\n", true},
		{"two spaces", "traceparent:  " + parent + "\r\n", true},
		{"tabulator", "traceparent:\t" + parent + "\r\n", true},
		{"trailing space", "traceparent: " + parent + " \r\n", true},
		{"behind others", filler + "traceparent: " + parent + "\r\n", true},
		{"before others", "traceparent: " + parent + "\r\n" + filler, true},
		{"random flag, too", "traceparent: 00-" + parentTrace + "-" + parentSpan + "-03\r\n", true},
		{"a later version", "traceparent: cc" + parent[2:] + "\r\n", true},
		{"a later version, with more", "traceparent: cc" + parent[2:] + "-more\r\n", true},
		{"not sampled", "traceparent: 00-" + parentTrace + "-" + parentSpan + "-00\r\n", false},
		{"none", "", false},
	}
	for i, tc := range cases {
		exchange(t, c.Entry, get(fmt.Sprintf("/n/%d", i), tc.headers))
	}
	a.settle()
	spans := s.all()
	for i, tc := range cases {
		root, ok := rootOf(spans, fmt.Sprintf("/n/%d", i))
		switch {
		case ok != tc.sampled:
			t.Errorf("%s: sampled %v, want %v", tc.name, ok, tc.sampled)
		case ok && (root.TraceID.String() != parentTrace || root.Parent.String() != parentSpan):
			t.Errorf("%s: %s", tc.name, describe(&root))
		}
	}
	// The backend's spans are in the caller's trace, too.
	for _, sp := range spans {
		if sp.TraceID.String() != parentTrace {
			t.Errorf("in another trace: %s", describe(&sp))
		}
	}
}

// A traceparent is found wherever it stands in a header of up to 15 KiB, which a service reads at once; of two, wherever
// they stand, neither is true.
func TestTraceparentInLongHeaders(t *testing.T) {
	t.Parallel()
	need(t, "haproxy", "nginx")
	c, s := newServers(t, "backend"), newSink(t)
	c.answers(c.haproxy())
	a := trace(t, s, nil, append([]string{"--port", "proxy=" + itoa(c.entry)}, ratio("0")...)...)
	const first, step, last = 700, 61, 14800
	value := "traceparent: " + parent + "\r\n"
	fill := func(n int) (lines string) {
		const most = 3900 // of a line
		for ; n > 0; n -= most {
			lines += "Cookie: " + strings.Repeat("x", min(n, most)) + "\r\n"
		}
		return lines
	}
	for n := first; n < last; n += step {
		exchange(t, loopback(c.entry), get(fmt.Sprintf("/n/%d", n), fill(n)+value+"X-Last: 1\r\n"))
		exchange(t, loopback(c.entry), get(fmt.Sprintf("/twice/%d", n), value+fill(n)+value))
	}
	a.settle()
	spans := s.all()
	for n := first; n < last; n += step {
		root, ok := rootOf(spans, fmt.Sprintf("/n/%d", n))
		if !ok || root.TraceID.String() != parentTrace || root.Parent.String() != parentSpan {
			t.Errorf("behind %d bytes: not adopted", n)
		}
		if _, ok := rootOf(spans, fmt.Sprintf("/twice/%d", n)); ok {
			t.Errorf("behind %d bytes: one of two is adopted", n)
		}
	}
}

// The same over HTTP/2, where fields are named by their number in a table of the connection: what a client sends again, too.
func TestTraceparentOverHTTP2(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	other := "00-" + strings.Repeat("ab", 16) + "-" + strings.Repeat("cd", 8) + "-01"
	field := func(value string) hpack.HeaderField { return hpack.HeaderField{Name: "traceparent", Value: value} }
	apart := func(value string) hpack.HeaderField {
		return hpack.HeaderField{Name: "traceparent", Value: value, Sensitive: true}
	}
	filler := func(n int) hpack.HeaderField {
		return hpack.HeaderField{Name: "x-filler", Value: strings.Repeat("x", n)}
	}
	cases := []struct {
		name    string
		headers []hpack.HeaderField
		adopted string
	}{
		{"none", nil, ""},
		{"once", []hpack.HeaderField{field(parent)}, parent},
		{"the same again", []hpack.HeaderField{field(parent)}, parent},
		{"another", []hpack.HeaderField{field(other)}, other},
		{"the first again", []hpack.HeaderField{field(parent)}, parent},
		{"not in the table", []hpack.HeaderField{apart(other)}, other},
		{"behind others", []hpack.HeaderField{filler(2500), field(parent), filler(300)}, parent},
		{"out of the table and in again", []hpack.HeaderField{filler(3900), field(other)}, other},
		{"a later version, with more", []hpack.HeaderField{field("cc" + parent[2:] + "-more")}, parent},
		{"a later version", []hpack.HeaderField{apart("cc" + parent[2:])}, parent},
		{"not sampled", []hpack.HeaderField{field(parent[:53] + "00")}, ""},
		{"two", []hpack.HeaderField{field(parent), field(other)}, ""},
		{"two, by their numbers", []hpack.HeaderField{field(parent), field(other)}, ""},
		{"three", []hpack.HeaderField{field(parent), field(other), field(parent)}, ""},
		{"one of them", []hpack.HeaderField{field(other)}, other},
		{"empty", []hpack.HeaderField{field("")}, ""},
		{"cut off", []hpack.HeaderField{field(parent[:54])}, ""},
		{"upper case", []hpack.HeaderField{field(strings.ToUpper(parent))}, ""},
		{"more behind it", []hpack.HeaderField{field(parent + "-extra")}, ""},
		{"another header", []hpack.HeaderField{{Name: "x-traceparent", Value: parent}, {Name: "traceparents", Value: parent}}, ""},
		{"the last", []hpack.HeaderField{field(parent)}, parent},
	}
	for name, service := range map[string]func(c *stack, listen string) *workloads.Process{
		"nginx": func(c *stack, listen string) *workloads.Process {
			return c.nginx("proxy", "", answer(listen+" http2"), listen)
		},
		"go": func(c *stack, listen string) *workloads.Process {
			return c.service("proxy", "", []string{goHTTP2Env + "=" + listen}, os.Args[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s, port := newStack(t), newSink(t), testkit.FreePort(t)
			c.ready(service(c, loopback(port)), loopback(port))
			a := trace(t, s, nil, append([]string{"--port", "proxy=" + itoa(port)}, ratio("0")...)...)
			client, err := dialFrames(loopback(port), 1)
			if err != nil {
				t.Fatal(err)
			}
			defer client.conn.Close()
			client.whole = true
			for i, tc := range cases {
				if err := client.send(i, tc.headers...); err != nil {
					t.Fatalf("%s: %v", tc.name, err)
				}
			}
			m := a.settle()
			spans := s.all()
			for i, tc := range cases {
				root, ok := rootOf(spans, fmt.Sprintf("/n/%d", i))
				got := ""
				if ok {
					got = "00-" + root.TraceID.String() + "-" + root.Parent.String() + "-01"
				}
				if got != tc.adopted {
					t.Errorf("%s: adopted %q, want %q", tc.name, got, tc.adopted)
				}
			}
			if m["tare_traceparent_unread_total"] > 0 || m.lost("http2_headers") > 0 {
				t.Errorf("headers are not read\n%v", m)
			}
		})
	}
}

// What is not a valid traceparent begins a trace of its own.
func TestTraceparentMalformed(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	header := func(v string) string { return get("/n/%d", "traceparent: "+v+"\r\n") }
	cases := []struct{ name, request string }{
		{"empty", header("")},
		{"cut off", header(parent[:54])},
		{"upper case", header(strings.ToUpper(parent))},
		{"zero trace id", header("00-" + strings.Repeat("0", 32) + "-" + parentSpan + "-01")},
		{"zero span id", header("00-" + parentTrace + "-" + strings.Repeat("0", 16) + "-01")},
		{"version ff", header("ff" + parent[2:])},
		{"not hexadecimal", header("00-" + parentTrace[:31] + "g-" + parentSpan + "-01")},
		{"flags not hexadecimal", header(parent[:53] + "0x")},
		{"wrong separator", header("00_" + parent[3:])},
		{"more behind it", header(parent + "-extra")},
		{"one digit more", header(parent + "0")},
		{"another header", get("/n/%d", "x-traceparent: "+parent+"\r\n")},
		{"in a value", get("/n/%d", "x-note: traceparent: "+parent+"\r\n")},
		{"in the body", "POST /n/%d HTTP/1.1\r\nHost: test\r\nContent-Length: 70\r\nConnection: close\r\n\r\n" +
			"\r\ntraceparent: " + parent + "\r\n"},
	}
	for i, tc := range cases {
		exchange(t, c.Entry, fmt.Sprintf(tc.request, i))
	}
	a.settle()
	spans := s.all()
	for i, tc := range cases {
		root, ok := rootOf(spans, fmt.Sprintf("/n/%d", i))
		switch {
		case !ok:
			t.Errorf("%s: no trace", tc.name)
		case root.TraceID.String() == parentTrace || !root.Parent.IsZero():
			t.Errorf("%s: adopted", tc.name)
		}
	}
}

// The flag "not sampled" is obeyed by a parent based sampler, whatever its own
// rate; a ratio sampler that is not parent based decides by the trace id.
func TestTraceparentDecision(t *testing.T) {
	t.Parallel()
	need(t)
	const low, high = "4bf92f3577b34da6a300000000000001", "4bf92f3577b34da6a3ffffffffffffff"
	type decision struct {
		name    string
		sampler string
		arg     float64
		trace   string
		flag    string
		sampled bool
	}
	// Whether a sampler is parent based changes only at a restart.
	for group, decisions := range map[string][]decision{
		"parent based": {
			{"always on, not sampled", "parentbased_always_on", 1, high, "00", false},
			{"always off, sampled", "parentbased_always_off", 1, low, "01", true},
		},
		"not parent based": {
			{"ratio, above the threshold", "traceidratio", 0.5, high, "00", true},
			{"ratio, below the threshold", "traceidratio", 0.5, low, "01", false},
			{"always on, not sampled", "always_on", 1, low, "00", true},
			{"always off, sampled", "always_off", 1, high, "01", false},
		},
	} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			c, s := chainOfOne(t), newSink(t)
			a := traceWith(t, decisions[0].sampler, decisions[0].arg, s, nil, "--port", "proxy="+itoa(c.port))
			for _, tc := range decisions {
				t.Run(tc.name, func(t *testing.T) {
					a.sample(t, tc.sampler, tc.arg)
					before := s.count()
					exchange(t, c.address, get("/n/1", "traceparent: 00-"+tc.trace+"-"+parentSpan+"-"+tc.flag+"\r\n"))
					a.settle()
					root, ok := rootOf(s.since(before), "/n/1")
					if ok != tc.sampled || ok && root.TraceID.String() != tc.trace {
						t.Errorf("sampled %v, want %v: %v", ok, tc.sampled, root.TraceID)
					}
				})
			}
		})
	}
}

type single struct {
	port    int
	address string
	process *workloads.Process
}

// chainOfOne is one nginx that answers.
func chainOfOne(t *testing.T) single {
	t.Helper()
	st, port := newStack(t), testkit.FreePort(t)
	return single{port, loopback(port), st.nginx("proxy", "", answer(loopback(port)), loopback(port))}
}
