package integration

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// publishing builds the service of testdata/published: with the variable in the executable, or
// in a library that it loads; and returns its command without its port and the rest.
func publishing(t *testing.T, library bool) (command, last []string) {
	t.Helper()
	need(t, "gcc")
	dir, source := t.TempDir(), testdata("published")
	exe := filepath.Join(dir, "serve")
	build := []string{"gcc", "-O1", "-o", exe, filepath.Join(source, "serve.c"), "-lpthread", "-ldl"}
	if !library {
		sh(t, append(build, "-DEXE", "-rdynamic", "-mtls-dialect=gnu2", filepath.Join(source, "variable.c"))...)
		return []string{exe}, nil
	}
	sh(t, build...)
	so := filepath.Join(dir, "libsdk.so")
	sh(t, "gcc", "-O1", "-shared", "-fPIC", "-mtls-dialect=gnu", "-o", so, filepath.Join(source, "variable.c"))
	return []string{exe}, []string{so}
}

// traceOf is the trace of the caller of request n, spanOf a span of the SDK in it.
func traceOf(n uint64) (id span.TraceID) {
	copy(id[:], "callers ")
	binary.BigEndian.PutUint64(id[8:], n|1<<40)
	return id
}

func sdkSpan(kind byte, n uint64) (id span.ID) {
	binary.BigEndian.PutUint64(id[:], n)
	copy(id[:], bytes.Repeat([]byte{kind}, 4))
	return id
}

// numbers sends requests with numbers in their paths over 64 connections; those with an even
// number have a traceparent.
func numbers(t *testing.T, port int, from, n uint64) {
	t.Helper()
	const connections = 64
	var wg sync.WaitGroup
	for i := range uint64(connections) {
		wg.Go(func() {
			conn, err := net.DialTimeout("tcp", loopback(port), testkit.Patient(deadline))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(testkit.Patient(time.Minute)))
			r := bufio.NewReader(conn)
			for k := from + i; k < from+n; k += connections {
				header := ""
				if k%2 == 0 {
					header = fmt.Sprintf("traceparent: 00-%s-00f067aa0ba902b7-01\r\n", traceOf(k))
				}
				if _, err := fmt.Fprintf(conn, "GET /n/%d HTTP/1.1\r\nHost: test\r\n%s\r\n", k, header); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

// numberOf is the number in a span's path.
func numberOf(t *testing.T, s *span.Span) uint64 {
	t.Helper()
	p, _ := s.Attr("url.path")
	n, err := strconv.ParseUint(strings.TrimPrefix(p.Str, "/n/"), 10, 64)
	if err != nil {
		t.Fatalf("%v: %s", err, describe(s))
	}
	return n
}

// Every span of a service with an SDK names the SDK's span of the same request, and none
// another's.
func TestPublished(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		library bool
		mode    string
		late    bool // the services start under the agent
	}{
		"executable":                  {mode: "pointer"},
		"executable, one record each": {mode: "valid"},
		"library":                     {library: true, mode: "pointer"},
		"library, started later":      {library: true, mode: "valid", late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, last := publishing(t, tc.library)
			c, s := newStack(t), newSink(t)
			front, back := testkit.FreePort(t), testkit.FreePort(t)
			serve := func() {
				service := func(name string, port, upstream int) {
					args := append(append([]string{}, command...), itoa(port), itoa(upstream), tc.mode)
					c.ready(c.service(name, "", nil, append(args, last...)...), loopback(port))
				}
				service("back", back, 0)
				service("front", front, back)
			}
			if !tc.late {
				serve()
			}
			a := trace(t, s, nil, "--port", "front="+itoa(front), "--port", "back="+itoa(back))
			if tc.late {
				serve()
			}
			for _, service := range []string{"front", "back"} {
				testkit.Until(t, 2*time.Minute, "the agent has found the SDK of "+service, func() bool {
					return strings.Contains(a.Log.String(), `its SDK tells which span is current" service=`+service)
				})
			}
			numbers(t, front, 0, 640) // until its threads are proven
			from := a.settle().int("tare_spans_total")
			s.take()
			const requests = 6400
			numbers(t, front, 1000, requests)
			m := a.settle()
			spans := s.take()
			t.Logf("%d spans", m.int("tare_spans_total")-from)
			named, calls := 0, 0
			for i := range spans {
				sp := &spans[i]
				n, kind := numberOf(t, sp), byte(0x33)
				switch {
				case sp.Kind == span.Client:
					kind = 0x22
					calls++
				case sp.Resource.Service == "front":
					kind = 0x11
				}
				if sp.Link.ID.IsZero() {
					continue
				}
				named++
				trace := traceOf(n)
				if n%2 == 1 { // begun by the SDK
					trace = span.TraceID{}
					copy(trace[:], "]]]]]]]]")
					binary.BigEndian.PutUint64(trace[8:], n)
				}
				if want := (span.Link{TraceID: trace, ID: sdkSpan(kind, n), Flags: 1}); sp.Link != want {
					t.Fatalf("request %d: %+v, want %+v: %s", n, sp.Link, want, describe(sp))
				}
				if id, _ := sp.Attr(semconv.SDKSpan); id.Str != sp.Link.ID.String() {
					t.Fatalf("%s: %q", semconv.SDKSpan, id.Str)
				}
				if id, _ := sp.Attr(semconv.SDKTrace); id.Str != trace.String() {
					t.Fatalf("%s: %q", semconv.SDKTrace, id.Str)
				}
				// Where Tare adopted the traceparent that the SDK continued, they are in one trace.
				if (sp.TraceID == trace) != (n%2 == 0) {
					t.Fatalf("request %d: in trace %s, the SDK's is %s", n, sp.TraceID, trace)
				}
			}
			if calls < requests*999/1000 || named < len(spans)*999/1000 || len(spans) < 3*requests*999/1000 {
				t.Errorf("%d of %d spans name the SDK's; %d calls\n%v", named, len(spans), calls, m)
			}
		})
	}
}

// In one trace, of the two spans of a request or call the one stays that the service's rule says, and the
// trace is whole, with the SDK's spans as they come from an SDK: later.
func TestPublishedKept(t *testing.T) {
	t.Parallel()
	command, _ := publishing(t, false)
	for _, keep := range []string{semconv.KeepSDK, semconv.KeepTare, "both"} {
		t.Run(keep, func(t *testing.T) {
			c := newStack(t)
			front, back := testkit.FreePort(t), testkit.FreePort(t)
			c.ready(c.service("back", "", nil, append(command, itoa(back), "0", "pointer")...), loopback(back))
			c.ready(c.service("front", "", nil, append(command, itoa(front), itoa(back), "pointer")...), loopback(front))
			rules := c.file("tare.yaml", fmt.Sprintf(`services:
  - {name: front, ports: [%d], published: %s}
  - {name: back, ports: [%d], published: %[2]s}
`, front, keep, back))
			// A trace whose caller has not come waits, however long the machine is busy.
			otlp := loopback(testkit.FreePort(t))
			patience := c.file("patient.yaml", fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: '%s'}}}}
processors: {tare_tracer: {expiry: 5m, max_age: 10m}}
`, otlp))
			w := runWhole(t, "", "--config", rules, "--collector-config", patience)
			a := &tracer{Child: w.Child, listen: w.self}
			for _, service := range []string{"front", "back"} {
				testkit.Until(t, 2*time.Minute, "the agent has found the SDK of "+service, func() bool {
					return strings.Contains(w.Log.String(), `its SDK tells which span is current" service=`+service)
				})
			}
			numbers(t, front, 0, 640)
			const from, requests = uint64(2000), uint64(128)
			td := ptrace.NewTraces()
			spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
			sdk := func(n uint64, id, parent span.ID, kind ptrace.SpanKind, name string) {
				sp := spans.AppendEmpty()
				sp.SetTraceID(pcommon.TraceID(traceOf(n)))
				sp.SetSpanID(pcommon.SpanID(id))
				sp.SetParentSpanID(pcommon.SpanID(parent))
				sp.SetKind(kind)
				sp.SetName(name)
				now := time.Now()
				sp.SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(-time.Second)))
				sp.SetEndTimestamp(pcommon.NewTimestampFromTime(now))
			}
			caller := span.ID{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}
			numbers(t, front, from, requests)
			for n := from; n < from+requests; n += 2 { // those with a traceparent
				sdk(n, caller, span.ID{}, ptrace.SpanKindClient, "caller")
				sdk(n, sdkSpan(0x11, n), caller, ptrace.SpanKindServer, "sdk front")
				sdk(n, sdkSpan(0x22, n), sdkSpan(0x11, n), ptrace.SpanKindClient, "sdk call")
				sdk(n, sdkSpan(0x33, n), sdkSpan(0x22, n), ptrace.SpanKindServer, "sdk back")
			}
			// One that came behind the SDK's would be late: it stays beside them.
			testkit.Until(t, time.Minute, "all spans of the agent are made, and with the collector", func() bool {
				m, err := a.metrics()
				return err == nil && m.idle(0) && w.collector.metric("tare_tracer_received_spans_total") >= m["tare_spans_total"]
			})
			body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
			if err != nil {
				t.Fatal(err)
			}
			resp, err := scraper.Post("http://"+otlp+"/v1/traces", "application/x-protobuf", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
			want := map[string]string{
				semconv.KeepSDK:  "caller(sdk front(sdk call(sdk back)))",
				semconv.KeepTare: "caller(GET /n/{id}(GET /n/{id}(GET /n/{id})))",
				"both":           "caller(GET /n/{id}(GET /n/{id}(GET /n/{id})) sdk front(sdk call(sdk back)))",
			}[keep]
			for n := from; n < from+requests; n += 2 {
				var trace struct {
					State string
					Spans []struct{ ID, Parent, Name string }
				}
				got := ""
				testkit.Until(t, time.Minute, "a whole trace of each request", func() bool {
					if !w.get("/api/v1/traces/"+traceOf(n).String(), &trace) {
						return false
					}
					var tree func(id string) string
					tree = func(id string) string {
						var below []string
						for _, sp := range trace.Spans {
							if sp.Parent == id {
								below = append(below, sp.Name+tree(sp.ID))
							}
						}
						slices.Sort(below)
						if len(below) == 0 {
							return ""
						}
						return "(" + strings.Join(below, " ") + ")"
					}
					got = strings.Trim(tree(""), "()")
					return true
				})
				if !strings.HasPrefix(want, got) || trace.State != "complete" || len(trace.Spans) != strings.Count(want, "sdk")+strings.Count(want, "GET")+1 {
					t.Fatalf("request %d: %s, %s, want %s\n%+v", n, trace.State, got, want, trace.Spans)
				}
			}
		})
	}
}

// A process that lies about which span is current harms its own spans alone.
func TestPublishedLies(t *testing.T) {
	t.Parallel()
	command, _ := publishing(t, false)
	c, s := newStack(t), newSink(t)
	front, back := testkit.FreePort(t), testkit.FreePort(t)
	c.ready(c.service("back", "", nil, append(command, itoa(back), "0", "pointer")...), loopback(back))
	c.ready(c.service("front", "", nil, append(command, itoa(front), itoa(back), "lie")...), loopback(front))
	a := trace(t, s, nil, "--port", "front="+itoa(front), "--port", "back="+itoa(back))
	for _, service := range []string{"front", "back"} {
		testkit.Until(t, 2*time.Minute, "the agent has found the SDK of "+service, func() bool {
			return strings.Contains(a.Log.String(), `its SDK tells which span is current" service=`+service)
		})
	}
	const requests = 3200
	numbers(t, front, 1000, requests)
	m := a.settle()
	lies, rights := 0, 0
	for _, sp := range s.take() {
		n := numberOf(t, &sp)
		switch {
		case sp.Resource.Service == "back":
			rights++
			if sp.Link.ID != sdkSpan(0x33, n) {
				t.Fatalf("%+v: %s", sp.Link, describe(&sp))
			}
		case sp.Link.ID.IsZero():
		case !bytes.Equal(bytes.Trim(sp.Link.ID[:], "\xba\x00"), nil): // of a record that changes, some may be 0
			t.Errorf("not what it has in memory: %+v", sp.Link)
		default:
			lies++
		}
	}
	if rights < requests || lies == 0 || m.lost("record_malformed") != 0 {
		t.Errorf("%d of %d spans are right, %d lie:\n%v", rights, requests, lies, m)
	}
}

// A tracer that people run publishes its context: Datadog's for Python, whose interpreter with it
// $TARE_TEST_DDTRACE names.
func TestPublishedByDatadog(t *testing.T) {
	t.Parallel()
	python := os.Getenv("TARE_TEST_DDTRACE")
	if python == "" || exec.Command(python, "-c", "import ddtrace").Run() != nil {
		t.Skip("needs TARE_TEST_DDTRACE, a python3 that imports ddtrace 4")
	}
	need(t)
	c, s := newStack(t), newSink(t)
	front, back := testkit.FreePort(t), testkit.FreePort(t)
	env := []string{"DD_TRACE_AGENT_URL=http://127.0.0.1:1", "DD_INSTRUMENTATION_TELEMETRY_ENABLED=false"}
	for _, p := range []struct {
		name           string
		port, upstream int
	}{{"back", back, 0}, {"front", front, back}} {
		c.ready(c.service(p.name, "", env, python, testdata("published/datadog.py"), itoa(p.port), itoa(p.upstream)), loopback(p.port))
	}
	a := trace(t, s, nil, "--port", "front="+itoa(front), "--port", "back="+itoa(back))
	testkit.Until(t, 2*time.Minute, "the agent has found ddtrace", func() bool {
		return strings.Count(a.Log.String(), "its SDK tells which span is current") == 2
	})
	numbers(t, front, 0, 640)
	a.settle()
	s.take()
	const requests = 1280
	numbers(t, front, 1000, requests)
	m := a.settle()
	named := map[string]int{}
	spans := s.take()
	for i := range spans {
		sp := &spans[i]
		// The path that is asked for ends with the ids of the span that asks: those of the
		// server's current span are in its answer alone, so that only calls are compared.
		p, _ := sp.Attr("url.path")
		parts := strings.Split(p.Str, "/")
		kind := sp.Resource.Service + " " + sp.Kind.String()
		if sp.Link.ID.IsZero() {
			continue
		}
		named[kind]++
		if sp.Kind == span.Client && (len(parts) != 5 || parts[3] != sp.Link.TraceID.String() || parts[4] != sp.Link.ID.String()) {
			t.Fatalf("%+v: %s", sp.Link, describe(sp))
		}
	}
	for _, kind := range []string{"front server", "front client", "back server"} {
		if named[kind] < requests*99/100 {
			t.Errorf("%v of %d requests name ddtrace's span:\n%v", named, requests, m)
			break
		}
	}
}
