package diagnose

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web"
	"github.com/tare-trace/tare/web/rootcause"
)

var update = flag.Bool("update", false, "write the golden files")

// hotel is n requests to frontend, which asks search, which asks geo and then rate, which
// asks a memcached that sends no spans. geo is 25 to 30 ms slower in 3% of the requests.
// All spans of a service follow each other, as they may come from several hosts.
func hotel(n int) ptrace.Traces {
	r := rand.New(rand.NewPCG(1, 2))
	td := ptrace.NewTraces()
	services := map[string]ptrace.SpanSlice{}
	for _, name := range []string{"frontend", "search", "geo", "rate"} {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", name)
		services[name] = rs.ScopeSpans().AppendEmpty().Spans()
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for k := range n {
		var trace pcommon.TraceID
		binary.BigEndian.PutUint64(trace[:8], uint64(k+1))
		binary.BigEndian.PutUint64(trace[8:], r.Uint64())
		var next byte
		at := start.Add(time.Duration(k) * time.Millisecond)
		// span makes a span that lasts as long as work takes.
		span := func(service, name string, kind ptrace.SpanKind, parent byte, work func(id byte)) ptrace.Span {
			next++
			id := next
			s := services[service].AppendEmpty()
			s.SetTraceID(trace)
			s.SetSpanID(pcommon.SpanID{7: id})
			s.SetParentSpanID(pcommon.SpanID{7: parent})
			s.SetName(name)
			s.SetKind(kind)
			s.TraceState().FromRaw("ot=th:e666") // 10%
			s.SetStartTimestamp(pcommon.NewTimestampFromTime(at))
			work(id)
			s.SetEndTimestamp(pcommon.NewTimestampFromTime(at))
			return s
		}
		busy := func(ms float64) {
			at = at.Add(time.Duration(ms * 1e6 * math.Exp(0.4*r.NormFloat64())))
		}
		call := func(from, to, name string, parent byte, work func(id byte)) {
			span(from, name, ptrace.SpanKindClient, parent, func(id byte) {
				busy(0.05)
				span(to, name, ptrace.SpanKindServer, id, work)
				busy(0.05)
			})
		}
		span("frontend", "GET /hotels", ptrace.SpanKindServer, 0, func(id byte) {
			busy(1)
			call("frontend", "search", "Nearby", id, func(id byte) {
				busy(0.5)
				call("search", "geo", "Nearby", id, func(byte) {
					busy(2)
					if r.IntN(100) < 3 {
						at = at.Add(time.Duration((25 + 5*r.Float64()) * 1e6))
					}
				})
				call("search", "rate", "GetRates", id, func(id byte) {
					busy(0.5)
					s := span("rate", "get", ptrace.SpanKindClient, id, func(byte) { busy(0.3) })
					s.Attributes().PutStr("db.system.name", "memcached")
					busy(0.5)
				})
			})
			busy(1)
		})
	}
	return td
}

// files writes the spans as a JSON file, as one with an object per line, in which spans of
// one trace are apart, and as protobuf.
func files(t *testing.T, td ptrace.Traces) (whole, lines, proto string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, b []byte, err error) string {
		file := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	whole = write("traces.json", b, err)
	var all bytes.Buffer
	for _, rs := range td.ResourceSpans().All() {
		one := ptrace.NewTraces()
		rs.CopyTo(one.ResourceSpans().AppendEmpty())
		b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(one)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(append(b, '\n'))
	}
	lines = write("lines.jsonl", all.Bytes(), nil)
	b, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	return whole, lines, write("traces.pb", b, err)
}

// command runs "tare diagnose".
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SilenceErrors = true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not as in %s:\n%s", file, got)
	}
}

func TestGolden(t *testing.T) {
	whole, lines, proto := files(t, hotel(1500))
	got := mustRun(t, whole)
	golden(t, "hotel.txt", got)
	for _, other := range []string{lines, proto} {
		if again := mustRun(t, other); again != got {
			t.Errorf("%s gives another answer than %s:\n%s", other, whole, again)
		}
	}
	golden(t, "nothing.txt", mustRun(t, whole, "--service", "nobody"))
	golden(t, "few.txt", mustRun(t, whole, "--traces", "200"))
	golden(t, "share.txt", mustRun(t, whole, "--share", "0.2", "--operation", "GetRates"))

	var d rootcause.Diagnosis
	if err := json.Unmarshal([]byte(mustRun(t, whole, "--json")), &d); err != nil {
		t.Fatal(err)
	}
	if v := d.Entries[0].Verdict; v.Status != rootcause.Found || v.Causes[0].Service != "geo" || v.Causes[0].Operation != "Nearby" {
		t.Errorf("%+v", v)
	}
}

// A directory, and the page of who has it open, give the same answer.
func TestStoreAndPage(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(store.Options{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(context.Background(), hotel(400)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(web.New(web.Options{Store: s, Version: "v1.2.3"}))
	asked := mustRun(t, "--page", server.URL, "--json", "--attr", "service.name=geo", "--service", "geo", "--operation", "Nearby")
	if _, err := command(t, "--page", server.URL+"/else"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("of another path: %v", err)
	}
	if _, err := command(t, "--store", dir); err == nil || !strings.Contains(err.Error(), "--page") {
		t.Errorf("of a store in use: %v", err)
	}
	server.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	read := mustRun(t, "--store", dir, "--json", "--attr", "service.name=geo", "--service", "geo", "--operation", "Nearby")
	if asked != read {
		t.Errorf("the page answers\n%s\nthe store\n%s", asked, read)
	}
	if _, err := command(t, "--page", server.URL); err == nil {
		t.Error("a page that is gone answers")
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"there is no store in " + dir + "/none: name one by --store", []string{"--store", dir + "/none"}},
		{"no such file", []string{dir + "/none"}},
		{"neither OTLP as JSON nor as protobuf", []string{file("text", "hello")}},
		{"object 1: ", []string{file("cut", `{"resourceSpans": [`)}},
		{"object 2 is not OTLP", []string{file("second", `{"resourceSpans": []} {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}`)}},
		{"it has no spans", []string{file("empty", "{}")}},
		{"one of them at a time", []string{file("empty", "{}"), "--page", defaultPage}},
		{"--share 0.5: use a number above 0, up to 0.25", []string{"--share", "0.5"}},
		{"--traces 0: use 1 to 100000", []string{"--traces", "0"}},
		{"--attr x: write it as key=value", []string{"--page", defaultPage, "--attr", "x"}},
		{"--page here: use an address", []string{"--page", "here"}},
	} {
		if out, err := command(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q\n%s", c.args, err, c.says, out)
		}
	}
	if _, err := os.Stat(dir + "/none"); err == nil {
		t.Error("a store was made that nobody asked for")
	}
}

func FuzzRead(f *testing.F) {
	td := hotel(1)
	b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(fmt.Appendf(nil, "%s\n%s", b, b))
	b, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		set := rootcause.NewSet()
		if read(bytes.NewReader(b), func(td ptrace.Traces) error { set.Add(td); return nil }) == nil {
			set.Diagnose(rootcause.Share)
		}
	})
}
