package w3c_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/w3c"
)

const (
	traceID = "12345678901234567890123456789012"
	spanID  = "1234567890123456"
	parent  = "00-" + traceID + "-" + spanID + "-01"
)

// over sends header lines, as they are, to a real net/http server and returns
// what FromHeader makes of them there: white space, letter case and repetition
// are then what a service sees.
func over(t *testing.T, addr string, lines ...string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", strings.Join(append(lines, ""), "\r\n")); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode, "the server refused the request itself: %s", r.Status)
	return r.Header.Get("Read")
}

func serve(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sc, ok := w3c.FromHeader(r.Header)
		if ok != sc.IsValid() || ok && !sc.IsRemote() {
			t.Errorf("%v: ok %v, valid %v, remote %v", r.Header, ok, sc.IsValid(), sc.IsRemote())
		}
		w.Header().Set("Read", show(sc))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

func show(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return "none"
	}
	return fmt.Sprintf("%s %s %02x [%s]", sc.TraceID(), sc.SpanID(), byte(sc.TraceFlags()), sc.TraceState())
}

// The cases, in testdata, are those of test/test.py in the W3C's trace-context repository:
// named after its functions, with its values.
func TestSpecificationTraceparent(t *testing.T) {
	addr := serve(t)
	for _, c := range table(t) {
		want := "none"
		if c.Flags != "" {
			want = traceID + " " + spanID + " " + c.Flags + " []"
		}
		t.Run(c.Name, func(t *testing.T) {
			if got := over(t, addr, c.Header); got != want {
				t.Errorf("%q\n got %s\nwant %s", c.Header, got, want)
			}
		})
	}
}

// table is what the parser of the kernel side is held against, too (bpf/hosttest).
func table(t *testing.T) (cases []struct{ Name, Header, Flags string }) {
	t.Helper()
	text, err := os.ReadFile("testdata/traceparent.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	return cases
}

func members(n int) string {
	var b []string
	for i := range n {
		b = append(b, fmt.Sprintf("bar%02d=%02d", i, i))
	}
	return strings.Join(b, ",")
}

func TestSpecificationTracestate(t *testing.T) {
	addr := serve(t)
	var value strings.Builder
	for c := byte(0x20); c <= 0x7e; c++ {
		if c != ',' && c != '=' {
			value.WriteByte(c)
		}
	}
	const key = "abcdefghijklmnopqrstuvwxyz0123456789_-*/"
	// W3C Trace Context §3.3.1.5: at least 512 characters must be propagated.
	long := "foo=" + strings.Repeat("v", 256) + ",bar=" + strings.Repeat("w", 247)
	require.Equal(t, 512, len(long))
	for _, c := range []struct {
		name  string
		lines []string // tracestate headers
		want  string
	}{
		{"included", []string{"foo=1,bar=2"}, "foo=1,bar=2"},
		{"empty", []string{""}, ""},
		{"empty last", []string{"foo=1", ""}, "foo=1"},
		{"empty first", []string{"", "foo=1"}, "foo=1"},
		{"several headers", []string{"foo=1,bar=2", "rojo=1,congo=2", "baz=3"}, "foo=1,bar=2,rojo=1,congo=2,baz=3"},
		{"duplicated key 1", []string{"foo=1,foo=1"}, ""},
		{"duplicated key 2", []string{"foo=1,foo=2"}, ""},
		{"duplicated key 3", []string{"foo=1", "foo=1"}, ""},
		{"duplicated key 4", []string{"foo=1", "foo=2"}, ""},
		{"all allowed characters", []string{key + "=" + value.String()}, key + "=" + value.String()},
		{"all allowed characters, vendor", []string{key + "@a-z0-9_-*/=" + value.String()}, key + "@a-z0-9_-*/=" + value.String()},
		{"ows 1", []string{"foo=1 \t , \t bar=2, \t baz=3"}, "foo=1,bar=2,baz=3"},
		{"ows 2", []string{"foo=1\t \t,\t \tbar=2,\t \tbaz=3"}, "foo=1,bar=2,baz=3"},
		{"ows 3", []string{" foo=1"}, "foo=1"},
		{"ows 4", []string{"\tfoo=1"}, "foo=1"},
		{"ows 5", []string{"foo=1 "}, "foo=1"},
		{"ows 6", []string{"foo=1\t"}, "foo=1"},
		{"ows 7", []string{"\t foo=1 \t"}, "foo=1"},
		{"key illegal 1", []string{"foo =1"}, ""},
		{"key illegal 2", []string{"FOO=1"}, ""},
		{"key illegal 3", []string{"foo.bar=1"}, ""},
		{"key empty", []string{"=1"}, ""},
		{"vendor format 1", []string{"foo@=1,bar=2"}, ""},
		{"vendor format 2", []string{"@foo=1,bar=2"}, ""},
		{"vendor format 3", []string{"foo@@bar=1,bar=2"}, ""},
		{"vendor format 4", []string{"foo@bar@baz=1,bar=2"}, ""},
		{"32 members", []string{members(32)}, members(32)},
		{"33 members", []string{members(33)}, ""},
		{"33 members in two headers", []string{members(32), "foo=1"}, ""},
		{"512 characters", []string{long}, long},
		{"key of 256", []string{strings.Repeat("z", 256) + "=1"}, strings.Repeat("z", 256) + "=1"},
		{"key of 257", []string{strings.Repeat("z", 257) + "=1"}, ""},
		{"tenant of 241, system of 14", []string{strings.Repeat("t", 241) + "@" + strings.Repeat("v", 14) + "=1"}, strings.Repeat("t", 241) + "@" + strings.Repeat("v", 14) + "=1"},
		{"tenant of 242", []string{strings.Repeat("t", 242) + "@v=1"}, ""},
		{"system of 15", []string{"t@" + strings.Repeat("v", 15) + "=1"}, ""},
		{"value empty", []string{"foo="}, ""},
		{"value with =", []string{"foo=bar=baz"}, ""},
		{"value of 256", []string{"foo=" + strings.Repeat("v", 256)}, "foo=" + strings.Repeat("v", 256)},
		{"value of 257", []string{"foo=" + strings.Repeat("v", 257)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := []string{"traceparent: " + parent}
			for _, l := range c.lines {
				lines = append(lines, "tracestate: "+l)
			}
			want := traceID + " " + spanID + " 01 [" + c.want + "]"
			if got := over(t, addr, lines...); got != want {
				t.Errorf("%q\n got %s\nwant %s", c.lines, got, want)
			}
			assert.Equal(t, "none", over(t, addr, lines[1:]...), "%q without a traceparent", c.lines)
		})
	}
	t.Run("casing and names", func(t *testing.T) {
		for line, want := range map[string]string{"TrAcEsTaTe: foo=1": "foo=1", "TRACESTATE: foo=1": "foo=1", "trace-state: foo=1": "", "trace.state: foo=1": ""} {
			assert.Equal(t, traceID+" "+spanID+" 01 ["+want+"]", over(t, addr, "traceparent: "+parent, line), line)
		}
	})
}
