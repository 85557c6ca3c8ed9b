package meter

import (
	"testing"
	"time"
)

func TestParseStartTime(t *testing.T) {
	const line = "7 (a ) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 1000 10 18446744073709551615 1 1 0"
	if d, err := parseStartTime([]byte(line)); err != nil || d != 47110*time.Millisecond {
		t.Errorf("%v, %v", d, err)
	}
	for _, in := range []string{"", "7 (a", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 x"} {
		if d, err := parseStartTime([]byte(in)); err == nil {
			t.Errorf("%q: %v", in, d)
		}
	}
}

func TestParsePSS(t *testing.T) {
	for in, want := range map[string]uint64{
		"00400000-7fff [rollup]\nRss:   900 kB\nPss:                 512 kB\nPss_Dirty: 3 kB\n": 512 << 10,
		"":             0,
		"Pss: 1 MB\n":  0,
		"Pss: x kB\n":  0,
		"Pss_Anon: 1 ": 0,
	} {
		if got := parsePSS([]byte(in)); got != want {
			t.Errorf("%q: %d", in, got)
		}
	}
}

func TestParseWritten(t *testing.T) {
	if n, ok := parseWritten([]byte("wchar: 9\nread_bytes: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 2\n")); !ok || n != 4096 {
		t.Errorf("%d, %v", n, ok)
	}
	for _, in := range []string{"", "write_bytes:\n", "write_bytes: -1\n", "cancelled_write_bytes: 2\n"} {
		if n, ok := parseWritten([]byte(in)); ok {
			t.Errorf("%q: %d", in, n)
		}
	}
}

func TestSecondNumber(t *testing.T) {
	for in, want := range map[string]uint64{"10 7 3\n": 7, "0 0 0 0": 0, "1 4503599627": 4503599627} {
		if got, ok := secondNumber([]byte(in)); !ok || got != want {
			t.Errorf("%q: %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "7", "7 ", "7 x", "7 99999999999999999999"} {
		if got, ok := secondNumber([]byte(in)); ok {
			t.Errorf("%q: %d", in, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []uint64
		want uint64
	}{{nil, 0}, {[]uint64{3}, 3}, {[]uint64{9, 1}, 1}, {[]uint64{9, 1, 5}, 5}, {[]uint64{4, 3, 2, 1}, 2}} {
		if got := median(c.in); got != c.want {
			t.Errorf("%v: %d", c.in, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(stat))
	f.Add([]byte("Name:\ttare\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"))
	f.Add([]byte("7 (a ) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 1000 10"))
	f.Add([]byte("Pss:                 512 kB\n"))
	f.Add([]byte("10 7 3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseStat(b); err == nil && m.CPUs == 0 {
			t.Error("a machine without CPUs")
		}
		if rss, peak, err := parseStatus(b); err == nil && (rss == 0 || peak == 0) {
			t.Error("a process without memory")
		}
		if n, ok := secondNumber(b); ok && n*pageSize/pageSize != n {
			t.Errorf("%d pages", n)
		}
		_, _ = parseStartTime(b)
		_ = parsePSS(b)
	})
}
