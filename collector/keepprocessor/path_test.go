package keepprocessor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

func pathOf(t *testing.T, specs []spec, bits uint64) uint64 {
	t.Helper()
	config := quiet()
	config.Rare = Rare{First: 1, Interval: time.Hour, AtMost: 1}
	k := keeperOf(t, config, newClock())
	s := scratches.Get().(*scratch)
	defer s.free()
	k.read(s, one(bits, specs...))
	return s.traces[0].path
}

// A path is the set of calls; their order, number, ids and durations do not matter.
func TestPath(t *testing.T) {
	plain := request("shop", "GET /")
	twice := append(request("shop", "GET /"),
		spec{service: "shop", name: "GET", kind: ptrace.SpanKindClient, parent: 1},
		spec{service: "stock", name: "GET /stock", kind: ptrace.SpanKindServer, parent: 4})
	swapped := []spec{plain[2], plain[1], plain[0]}
	swapped[0].parent, swapped[1].parent, swapped[2].parent = 2, 3, 0
	deeper := append(request("shop", "GET /"), spec{service: "stock", name: "SELECT", kind: ptrace.SpanKindClient, parent: 3})
	moved := append(request("shop", "GET /"), spec{service: "stock", name: "SELECT", kind: ptrace.SpanKindClient, parent: 1})
	want := pathOf(t, plain, 1)
	for name, specs := range map[string][]spec{"again": plain, "twice": twice, "swapped": swapped,
		"slower": change(plain, 1, func(s *spec) { s.duration = time.Hour }), "failed": change(plain, 1, fails),
		"internal kind left out": change(plain, 0, func(*spec) {})} {
		assert.Equal(t, want, pathOf(t, specs, 99), "%s: another path", name)
	}
	seen := map[uint64]string{want: "plain"}
	for name, specs := range map[string][]spec{
		"root's name":   request("shop", "GET /x"),
		"service":       request("shop2", "GET /"),
		"child's name":  change(plain, 2, func(s *spec) { s.name = "x" }),
		"kind":          change(plain, 2, func(s *spec) { s.kind = ptrace.SpanKindConsumer }),
		"parent":        change(plain, 2, func(s *spec) { s.parent = 1 }),
		"deeper":        deeper,
		"moved":         moved,
		"without stock": plain[:2],
	} {
		got := pathOf(t, specs, 1)
		if other, known := seen[got]; known {
			t.Errorf("%s has the path of %s", name, other)
		}
		seen[got] = name
	}
}

func TestFirstOfAPath(t *testing.T) {
	at := newClock()
	config := quiet()
	config.Rare = Rare{First: 3, Interval: time.Minute, AtMost: 5}
	k := keeperOf(t, config, at)
	count := func(name string, n int) (kept int) {
		for range n {
			if got := reasonOf(t, decided(t, k, one(1, request("shop", name)...))); got == "rare" {
				kept++
			} else if got != "" {
				t.Fatal(got)
			}
		}
		return kept
	}
	for _, c := range []struct {
		name   string
		n      int
		want   int
		passes time.Duration // before
	}{
		{"a", 10, 3, 0},
		{"b", 10, 2, 0},                // of three, for five are enough
		{"a", 10, 0, 59 * time.Second}, // still this interval
		{"a", 10, 3, time.Second},
		{"c", 1, 1, 0},
	} {
		at.advance(c.passes)
		if got := count(c.name, c.n); got != c.want {
			t.Errorf("%s: kept %d of %d, want %d", c.name, got, c.n, c.want)
		}
	}
	assert.EqualValues(t, 1, k.seen.overLimit, "over the limit")
}

// A new path counts as seen only as often as the package comment says.
func TestPathCollisions(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for paths, most := range map[int]float64{1000: 1e-4, 10_000: 0.045} {
		s := newSeen(Rare{First: 3, Interval: time.Hour, AtMost: 1}, newClock().now)
		for range paths {
			path := rng.Uint64()
			for range 50 {
				s.observe(path)
			}
		}
		const probes = 200_000
		met := 0
		for range probes {
			least := uint8(255)
			for i, path := 0, rng.Uint64(); i < pathRows; i++ {
				least = min(least, s.rows[i][cell(path, i)])
			}
			if least >= 3 {
				met++
			}
		}
		if got := float64(met) / probes; got > most {
			t.Errorf("%d paths: %g of others pass for seen, at most %g were promised", paths, got, most)
		}
	}
	// A path itself is counted exactly, or too much.
	s := newSeen(Rare{First: 100, Interval: time.Hour, AtMost: 1}, newClock().now)
	for i := range 101 {
		if got := s.observe(12345); got != (i < 100) {
			t.Errorf("observation %d: first ones %v", i, got)
		}
	}
}

// If names contain ids, so that every path is new, the bound limits the kept traces.
func TestRareIsBounded(t *testing.T) {
	config := quiet()
	config.Rare = Rare{First: 1, Interval: time.Hour, AtMost: 20}
	k := keeperOf(t, config, newClock())
	kept := 0
	for i := range 1000 {
		kept += min(decided(t, k, one(1, request("shop", fmt.Sprint("GET /", i))...)).SpanCount(), 1)
	}
	// A few new paths pass for seen, see TestPathCollisions.
	if kept != 20 || k.seen.overLimit > 980 || k.seen.overLimit < 970 {
		t.Errorf("kept %d, over the limit %d; want 20, 980 or a few less", kept, k.seen.overLimit)
	}
}
