package span

import (
	"strings"
	"testing"
)

func treeSpan(id, parent byte, service string, kind Kind, name string, start, end uint64, attrs ...Attr) Span {
	return Span{
		TraceID: TraceID{15: 1}, ID: ID{7: id}, Parent: ID{7: parent}, Kind: kind, Name: name,
		Start: 1_000_000 + start, End: 1_000_000 + end, Resource: &Resource{Service: service}, Attrs: attrs,
	}
}

func tree1(t *testing.T, spans ...Span) string {
	t.Helper()
	var out strings.Builder
	if err := WriteTree(&out, spans); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWriteTree(t *testing.T) {
	got := tree1(t,
		// Not in order; the two calls overlap by 100 µs, the second ends late.
		treeSpan(4, 3, "shop", Client, "GET", 600_000, 1_700_000, String("url.path", "/stock/17")),
		treeSpan(1, 0, "proxy", Server, "GET /item/17", 0, 2_000_000, String("url.path", "/item/17")),
		treeSpan(5, 3, "shop", Client, "GET", 300_000, 700_000, String("db.query.text", "GET item:17")),
		treeSpan(2, 1, "proxy", Client, "GET", 100_000, 1_900_000),
		treeSpan(3, 2, "shop", Server, "GET", 200_000, 1_600_000),
		treeSpan(6, 5, "redis", Server, "GET", 400_000, 400_500),
	)
	want := strings.TrimPrefix(`
trace 00000000000000000000000000000001  6 spans  2.000 ms
SERVICE            OPERATION                  DURATION      SELF
proxy              server GET /item/17        2.000 ms  200.0 µs
└─ proxy           client GET                 1.800 ms  400.0 µs
   └─ shop         server GET                 1.400 ms  100.0 µs
      ├─ shop      client GET item:17         400.0 µs  399.5 µs
      │  └─ redis  server GET                   0.5 µs    0.5 µs
      └─ shop      client GET /stock/17       1.100 ms  1.100 ms
`, "\n")
	if squeeze(got) != squeeze(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Columns line up: every line but the title has the same width.
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")[1:]
	for _, l := range lines {
		if len([]rune(l)) != len([]rune(lines[0])) {
			t.Errorf("ragged table:\n%s", got)
			break
		}
	}
}

// squeeze makes every run of spaces one.
func squeeze(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

func TestWriteTreeOfBrokenTraces(t *testing.T) {
	orphan := treeSpan(2, 9, "backend", Server, "GET", 0, 10)
	orphan.Status = Error
	nobody := treeSpan(3, 0, "", Internal, "a\x1b[31m\tb\u202ec", 5, 1)
	nobody.Resource = nil
	got := squeeze(tree1(t, orphan, nobody))
	for _, want := range []string{
		"backend server GET (error) (parent missing) 0.0 µs 0.0 µs",
		`(unknown) internal a\u001b[31m\tb\u202ec 0.0 µs 0.0 µs`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	// Loops end, and every span is printed once.
	for name, spans := range map[string][]Span{
		"own parent":          {treeSpan(1, 1, "a", Server, "x", 0, 1)},
		"each other's parent": {treeSpan(1, 2, "a", Server, "x", 0, 1), treeSpan(2, 1, "a", Server, "x", 0, 1)},
		"one id twice":        {treeSpan(1, 0, "a", Server, "x", 0, 1), treeSpan(1, 0, "a", Server, "x", 0, 1), treeSpan(2, 1, "a", Server, "x", 0, 1)},
	} {
		if got := tree1(t, spans...); strings.Count(got, "server x") != len(spans) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if got := tree1(t); got != "" {
		t.Errorf("no spans: %q", got)
	}
}

func TestWriteTreeKeepsTracesApart(t *testing.T) {
	a, b := treeSpan(1, 0, "a", Server, "x", 0, 1), treeSpan(2, 1, "b", Server, "y", 0, 1)
	b.TraceID[0] = 7
	got := tree1(t, a, b)
	if strings.Count(got, "trace ") != 2 || !strings.Contains(got, "server y (parent missing)") {
		t.Errorf("got\n%s", got)
	}
}
