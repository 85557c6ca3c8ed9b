package tracelog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/lean/logfile"
)

var update = flag.Bool("update", false, "write the golden files")

// start is when the traces of the tests begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// add appends a span to the service's resource; parent 0 is none.
func add(td ptrace.Traces, service string, trace, id, parent byte, from, to time.Duration) ptrace.Span {
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", service)
	s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{15: trace})
	s.SetSpanID(pcommon.SpanID{7: id})
	s.SetParentSpanID(pcommon.SpanID{7: parent})
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(start.Add(from)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(to)))
	return s
}

// shop is a request to shop, which asks cart, in trace 1, and a shorter one that fails, in trace 2.
func shop() ptrace.Traces {
	td := ptrace.NewTraces()
	s := add(td, "cart", 1, 3, 2, 2*time.Millisecond, 6*time.Millisecond)
	s.SetName("GET /cart")
	s.SetKind(ptrace.SpanKindServer)
	s.SetFlags(0x301)
	s = add(td, "shop", 1, 2, 1, time.Millisecond, 7*time.Millisecond)
	s.SetName("GET")
	s.SetKind(ptrace.SpanKindClient)
	s.Attributes().PutStr("server.address", "cart")
	s.SetFlags(0x101)
	s = add(td, "shop", 1, 1, 0, 0, 10*time.Millisecond)
	s.SetName("GET /")
	s.SetKind(ptrace.SpanKindServer)
	s = add(td, "shop", 2, 4, 0, time.Second, time.Second+time.Millisecond)
	s.SetName("POST /order")
	s.SetKind(ptrace.SpanKindServer)
	s.Status().SetCode(ptrace.StatusCodeError)
	return td
}

// write writes the spans into a new file, and returns its path.
func write(t testing.TB, c logfile.Config, td ptrace.Traces) string {
	t.Helper()
	if c.Path == "" {
		c.Path = filepath.Join(t.TempDir(), "spans.jsonl")
	}
	e, err := logfile.New(c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		t.Fatal(err)
	}
	if rejected, err := e.Export(context.Background(), b, td.SpanCount()); rejected != 0 || err != nil {
		t.Fatal(rejected, err)
	}
	if err := e.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c.Path
}

func command(t testing.TB, args ...string) (out, said string, err error) {
	t.Helper()
	cmd := Command()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be the test's own
	cmd.SilenceErrors = true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func mustRun(t testing.TB, args ...string) (out, said string) {
	t.Helper()
	out, said, err := command(t, args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, said)
	}
	return out, said
}

// A trace of two services, from a file of each, in both forms, is one tree.
func TestTree(t *testing.T) {
	for name, c := range map[string]logfile.Config{"span": {}, "request": {PerRequest: true}} {
		td := shop()
		cart := ptrace.NewTraces()
		td.ResourceSpans().At(0).CopyTo(cart.ResourceSpans().AppendEmpty())
		td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
			v, _ := rs.Resource().Attributes().Get("service.name")
			return v.Str() == "cart"
		})
		shops, carts := write(t, c, td), write(t, c, cart)
		want := map[string]int{"span": 3, "request": 2}[name]
		if b, err := os.ReadFile(shops); err != nil || bytes.Count(b, []byte{'\n'}) != want {
			t.Errorf("%s: %s, %v", name, b, err)
		}
		out, said := mustRun(t, shops, carts)
		golden(t, "tree.txt", out)
		if said != "" {
			t.Errorf("said %q", said)
		}
		one, _ := mustRun(t, "--trace", "00000000000000000000000000000002", shops, carts)
		if failed, _ := mustRun(t, "--failed", shops, carts); failed != one || strings.Count(one, "trace ") != 1 || !strings.Contains(one, "(error)") {
			t.Errorf("failed: %s\nby id: %s", failed, one)
		}
		if longest, _ := mustRun(t, "-n1", "--service", "cart", shops, carts); !strings.HasPrefix(out, longest) || strings.Count(longest, "trace ") != 1 {
			t.Errorf("longest: %s", longest)
		}
		if all, _ := mustRun(t, "--all", shops, carts); !strings.HasPrefix(all, one) || strings.Count(all, "trace ") != 2 {
			t.Errorf("all, the newest first: %s", all)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("got\n%s\nwant\n%s\n(%v; -update writes it)", got, want, err)
	}
}

// Nothing of a span is lost on the way to a file and back.
func TestRoundTrip(t *testing.T) {
	td := ptrace.NewTraces()
	s := add(td, "shop", 1, 2, 3, time.Millisecond, 0) // ends before it starts
	rs := td.ResourceSpans().At(0)
	rs.SetSchemaUrl("https://example.com/1")
	rs.Resource().Attributes().PutInt("process.pid", math.MaxInt64)
	scope := rs.ScopeSpans().At(0)
	scope.SetSchemaUrl("https://example.com/2")
	scope.Scope().SetName("scope")
	scope.Scope().SetVersion("v1")
	scope.Scope().Attributes().PutBool("a", true)
	s.SetName("a \"name\"\n\u0001ä\u2028")
	s.SetKind(ptrace.SpanKindConsumer)
	s.SetFlags(0x301)
	s.TraceState().FromRaw("ot=th:8")
	s.Status().SetCode(ptrace.StatusCodeOk)
	s.Status().SetMessage("fine")
	s.SetDroppedAttributesCount(1)
	s.SetDroppedEventsCount(2)
	s.SetDroppedLinksCount(math.MaxUint32)
	values := func(m pcommon.Map) {
		m.PutEmpty("none")
		m.PutStr("", "no key")
		m.PutInt("int", math.MinInt64)
		for key, v := range map[string]float64{"five": 5, "tiny": 5e-324, "minus": math.Copysign(0, -1), "nan": math.NaN(), "inf": math.Inf(1), "less": math.Inf(-1)} {
			m.PutDouble(key, v)
		}
		m.PutEmptyBytes("bytes").FromRaw([]byte{0, 1, 255})
		m.PutEmptyBytes("no bytes")
		list := m.PutEmptySlice("list")
		list.AppendEmpty().SetDouble(1)
		list.AppendEmpty()
		list.AppendEmpty().SetEmptyMap().PutEmptySlice("deep").AppendEmpty().SetEmptyBytes().FromRaw([]byte("x"))
		m.PutEmptySlice("empty")
		m.PutEmptyMap("empty map")
	}
	values(s.Attributes())
	e := s.Events().AppendEmpty()
	e.SetName("exception")
	e.SetTimestamp(math.MaxUint64)
	e.SetDroppedAttributesCount(9)
	values(e.Attributes())
	s.Events().AppendEmpty()
	l := s.Links().AppendEmpty()
	l.SetTraceID(pcommon.TraceID{1})
	l.SetSpanID(pcommon.SpanID{2})
	l.TraceState().FromRaw("x=y")
	l.SetFlags(0x101)
	l.SetDroppedAttributesCount(9)
	values(l.Attributes())

	root := ptrace.NewTraces()
	td.ResourceSpans().At(0).CopyTo(root.ResourceSpans().AppendEmpty())
	first := root.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	first.SetSpanID(pcommon.SpanID{7: 3})
	first.SetParentSpanID(pcommon.SpanID{})
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetKind(ptrace.SpanKindInternal)
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetFlags(0x101)

	for name, c := range map[string]logfile.Config{"span": {}, "request": {PerRequest: true}} {
		both := ptrace.NewTraces()
		td.CopyTo(both)
		root.ResourceSpans().At(0).CopyTo(both.ResourceSpans().AppendEmpty())
		got := readAll(t, write(t, c, both))
		if got.SpanCount() != 2 {
			t.Fatalf("%s: %d spans", name, got.SpanCount())
		}
		for i, want := range []ptrace.Traces{td, root} {
			one := got
			if name == "request" { // the local root first, in one resource, each with its own scope
				i, one = 1-i, ptrace.NewTraces()
				got.ResourceSpans().At(0).CopyTo(one.ResourceSpans().AppendEmpty())
				n := -1
				one.ResourceSpans().At(0).ScopeSpans().RemoveIf(func(ptrace.ScopeSpans) bool { n++; return n != i })
				i = 0
			}
			back := ptrace.NewTraces()
			one.ResourceSpans().At(i).CopyTo(back.ResourceSpans().AppendEmpty())
			if asJSON(t, back) != asJSON(t, want) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, asJSON(t, back), asJSON(t, want))
			}
		}
	}
}

func asJSON(t testing.TB, td ptrace.Traces) string {
	t.Helper()
	b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readAll(t testing.TB, path string) ptrace.Traces {
	t.Helper()
	all := ptrace.NewTraces()
	r := newReader(nil, func(td ptrace.Traces) error {
		td.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
		return nil
	})
	if err := r.file(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	if r.counts.damaged+r.counts.others+r.counts.long != 0 {
		t.Errorf("%v", r.counts)
	}
	return all
}

// What `--json` prints is OTLP of what the trees are made of.
func TestJSON(t *testing.T) {
	out, _ := mustRun(t, "--json", "--all", write(t, logfile.Config{}, shop()))
	spans, lines := 0, 0
	for line := range strings.Lines(out) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		spans += td.SpanCount()
		lines++
	}
	if spans != 4 || lines != 2 {
		t.Errorf("%d spans in %d lines", spans, lines)
	}
}

// Lines of others, damaged ones and text in front of a line are borne; rotated and compressed files are read.
func TestMixedFiles(t *testing.T) {
	path := write(t, logfile.Config{}, shop())
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
	mixed := `{"time":"now","level":"INFO","msg":"tare.span"}` + "\n" +
		"plain text\n\n" + "2026-01-02T03:04:05Z stdout F " + lines[0] +
		`{"EventName":"else","Body":"tare.span"}` + "\n" +
		lines[1][:len(lines[1])/2] + "\n" + lines[2] +
		strings.Replace(lines[1], `"kind":"client"`, `"kind":"clown"`, 1) +
		lines[1] + strings.TrimSuffix(lines[3], "\n") // no newline at the end
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write([]byte(mixed)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	want, _ := mustRun(t, path)
	for name, content := range map[string][]byte{"mixed": []byte(mixed), "mixed.gz": compressed.Bytes()} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		out, said := mustRun(t, file)
		if out != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, out, want)
		}
		if !strings.Contains(said, "3 lines skipped as no spans, 2 lines cannot be read") {
			t.Errorf("%s: said %q", name, said)
		}
	}
}

func TestLongLine(t *testing.T) {
	content := strings.Repeat("x", maxLine+1) + "\nshort\n"
	file := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	_, said, err := command(t, file)
	if err == nil || !strings.Contains(said, "1 line skipped as no spans, 1 line skipped as longer than 64 MiB") {
		t.Errorf("%v, said %q", err, said)
	}
}

func TestMistakes(t *testing.T) {
	path := write(t, logfile.Config{}, shop())
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"requires at least 1 arg", nil},
		{"no such file", []string{path + ".none"}},
		{"no span was found", []string{empty}},
		{"no trace in the files matches", []string{"--service", "none", path}},
		{"no span of trace 0000", []string{"--trace", "00000000000000000000000000000009", path}},
		{`--trace "12": write it as 32`, []string{"--trace", "12", path}},
		{"--traces 0: use 1 to 1000", []string{"--traces", "0", path}},
		{"--all and --traces", []string{"--all", "-n", "2", path}},
		{"leave out --all", []string{"--all", "--trace", "00000000000000000000000000000001", path}},
	} {
		if out, _, err := command(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q\n%s", c.args, err, c.says, out)
		}
	}
}

// More traces than one page of the store's search, in more than one batch.
func TestMany(t *testing.T) {
	td := ptrace.NewTraces()
	const n = batchSpans + maxTraces
	for i := range n {
		s := add(td, "shop", 0, 1, 0, time.Duration(i)*time.Microsecond, time.Duration(i+1)*time.Microsecond)
		var id pcommon.TraceID
		binary.BigEndian.PutUint64(id[:], uint64(i+1))
		s.SetTraceID(id)
	}
	out, _ := mustRun(t, "--all", "--json", write(t, logfile.Config{}, td))
	if lines := strings.Count(out, "\n"); lines != n {
		t.Errorf("%d of %d traces", lines, n)
	}
}

// No line makes the reader fail otherwise than by an error, and what it reads is written and read as the same.
func FuzzDecode(f *testing.F) {
	for _, c := range []logfile.Config{{}, {PerRequest: true}} {
		b, err := os.ReadFile(write(f, c, shop()))
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			f.Add(line)
		}
	}
	f.Add([]byte(`{"EventName":"tare.span","TraceId":"01000000000000000000000000000000","SpanId":"0100000000000000","Timestamp":"1","Body":"b",` +
		`"Attributes":{"b":{"bytesValue":"AA=="},"d":{"doubleValue":"NaN"},"l":[1,2.0,null],"tare.span":{"duration_ns":-1,"links":[{"trace_id":"","span_id":""}]}}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, line []byte) {
		td := ptrace.NewTraces()
		n, err := decode(line, td)
		if err != nil {
			if td.SpanCount() != 0 {
				t.Errorf("%d spans beside an error", td.SpanCount())
			}
			return
		}
		if n != td.SpanCount() {
			t.Fatalf("%d spans, said to be %d", td.SpanCount(), n)
		}
		path := filepath.Join(dir, "spans.jsonl")
		_ = os.Remove(path)
		first := ptrace.NewTraces()
		td.ResourceSpans().At(0).CopyTo(first.ResourceSpans().AppendEmpty())
		again := readAll(t, write(t, logfile.Config{Path: path}, first))
		if again.SpanCount() != n {
			t.Fatalf("%d spans became %d", n, again.SpanCount())
		}
		if n == 1 && asJSON(t, again) != asJSON(t, td) {
			t.Fatalf("%s\nbecame\n%s", asJSON(t, td), asJSON(t, again))
		}
	})
}
