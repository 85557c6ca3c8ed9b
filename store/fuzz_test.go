package store

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// parts are the values of a real chunk, by part.
func parts(t testing.TB) map[byte][][]byte {
	t.Helper()
	b := newBuilder()
	defer b.release()
	data, err := encode(everything())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.addTraces(data); err != nil {
		t.Fatal(err)
	}
	w := partWriter{}
	if _, err := b.build(1, 2, 3, w); err != nil {
		t.Fatal(err)
	}
	return w
}

type partWriter map[byte][][]byte

func (w partWriter) put(key, value []byte) error {
	part := byte(keyTrace)
	if key[0] == keyChunk {
		part = key[9]
	}
	w[part] = append(w[part], bytes.Clone(value))
	return nil
}

func seed(f *testing.F, part byte) {
	for _, b := range parts(f)[part] {
		f.Add(b)
	}
	f.Add([]byte{})
}

func FuzzZone(f *testing.F) {
	seed(f, partZone)
	f.Fuzz(func(t *testing.T, b []byte) {
		z, err := parseZone(7, b)
		if err != nil {
			return
		}
		if again, err := parseZone(7, z.append(nil)); err != nil || *again != *z {
			t.Errorf("%+v becomes %+v, %v", z, again, err)
		}
	})
}

func FuzzNames(f *testing.F) {
	seed(f, partNames)
	f.Fuzz(func(t *testing.T, b []byte) {
		n, _, err := parseNames(b)
		if err != nil {
			return
		}
		if again, _, err := parseNames(n.append(nil)); err != nil || !bytes.Equal(n.append(nil), again.append(nil)) {
			t.Errorf("%+v becomes %+v, %v", n, again, err)
		}
	})
}

func FuzzColumn(f *testing.F) {
	for _, b := range parts(f)[partColumn] {
		f.Add(b, len(b))
	}
	f.Add([]byte{1, 2, 3, 4}, 2)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > 1<<20 {
			return
		}
		c, err := parseColumn(b, n)
		if err != nil {
			return
		}
		want := []bool{false, true, true}
		found := 0
		for i := range n {
			if v := c.at(i); v == 1 || v == 2 {
				found++
			}
		}
		if got := c.within(n, want, nil); len(got) != found {
			t.Errorf("%d numbers within, want %d", len(got), found)
		}
	})
}

func FuzzGroups(f *testing.F) {
	// Decompressed ones, or the fuzzer would only look for checksums.
	for _, b := range parts(f)[partGroups] {
		raw, err := decompress(b, 1<<20)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = parseGroups(raw, 1<<20)
		_, _ = parseGroups(s2.Encode(nil, raw), 1<<20)
	})
}

func FuzzFilters(f *testing.F) {
	for _, b := range parts(f)[partFilters] {
		f.Add(b, 1)
	}
	f.Fuzz(func(_ *testing.T, b []byte, n int) {
		if n < 0 {
			return
		}
		filters, err := parseFilters(b, n)
		if err != nil {
			return
		}
		for _, x := range filters {
			x.has(0)
			x.has(1 << 63)
			x.has(math.MaxUint64)
		}
	})
}

func FuzzPlace(f *testing.F) {
	seed(f, keyTrace)
	key := traceKey(pcommon.TraceID{1}, 9)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePlace(key, b)
		if err != nil {
			return
		}
		if again, err := parsePlace(key, p.append(nil)); err != nil || again != p {
			t.Errorf("%+v becomes %+v, %v", p, again, err)
		}
	})
}

// FuzzRecord reads the spans of a block: for searching, merging and answering.
func FuzzRecord(f *testing.F) {
	p := parts(f)
	groups, err := parseGroups(p[partGroups][0], 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range p[partBlock] {
		raw, err := decompress(b, 1<<20)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	var all []*attributeMatch
	for _, c := range []Condition{
		{Key: "slice", Value: `["x",[7],null,{"deep":"est"}]`}, {Key: "otel.scope.name", Op: Like, Value: "a*"},
		{Key: "otel.status_code", Value: "ERROR"}, {Key: "int", Op: AtLeast, Value: "1"},
	} {
		m, err := newAttributeMatch(c)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, m)
	}
	f.Fuzz(func(_ *testing.T, record []byte) {
		_, _ = attributeMatches(all[:1], groups, record, func(int) bool { return false })
		_, _ = attributeMatches(all, groups, record, func(int) bool { return false })
		b := newBuilder()
		defer b.release()
		if err := (&copier{builder: b}).add(groups, record); err == nil && len(b.rows) > 0 {
			_, _ = b.build(1, 2, 3, partWriter{})
		}
	})
}

// FuzzTraces reads what the official encoder makes, and whatever else.
func FuzzTraces(f *testing.F) {
	data, err := encode(everything())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(_ *testing.T, data []byte) {
		b := newBuilder()
		defer b.release()
		if err := b.addTraces(data); err == nil && len(b.rows) > 0 {
			_, _ = b.build(1, 2, 3, partWriter{})
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(cursor{from: 5, id: pcommon.TraceID{1}}.String())
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCursor(s)
		if err != nil {
			return
		}
		if again, err := parseCursor(c.String()); err != nil || again != c {
			t.Errorf("%q: %v becomes %v, %v", s, c, again, err)
		}
	})
}

func FuzzCondition(f *testing.F) {
	for _, text := range []string{"a=b", "url.path=/a*", "n>=5", "n!=x", "n<1e3", "a=", "=b", "a!b"} {
		f.Add(text, "5")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		c, err := ParseCondition(text)
		if err != nil {
			return
		}
		m, err := newAttributeMatch(c)
		if err != nil {
			t.Fatalf("%q is taken as %+v: %v", text, c, err)
		}
		if c.Key == "" || !strings.HasPrefix(text, c.Key) {
			t.Errorf("%q is taken as %+v", text, c)
		}
		m.compare(value, 0, false)
	})
}
