package spans

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A table is what a map is, whatever ids it is given: random ones, and such as all want one place.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, id := range map[string]func() uint64{
		"random":       r.Uint64,
		"one place":    func() uint64 { return r.Uint64N(1<<16)<<32 | 63 },
		"a few places": func() uint64 { return r.Uint64N(1<<16)<<32 | 60 + r.Uint64N(8) },
	} {
		var got table
		want := map[uint64]*open{}
		for range 20_000 {
			at := id()
			if len(want) < 300 && r.IntN(2) == 0 && want[at] == nil {
				o := &open{state: state{id: at}}
				got.add(o)
				want[at] = o
			}
			require.Same(t, want[at], got.find(at), name)
			for at, o := range want { // some one
				if r.IntN(3) == 0 {
					got.remove(o)
					delete(want, at)
					require.Nil(t, got.find(at), name)
				}
				break
			}
			got.shrink()
			require.Equal(t, len(want), got.spans, name)
		}
		for at, o := range want {
			require.Same(t, o, got.find(at), name)
		}
		got.each(func(o *open) {
			require.Same(t, o, want[o.id], name)
			delete(want, o.id)
			got.remove(o)
		})
		assert.Empty(t, want, "%s: spans that were left out", name)
		assert.Zero(t, got.spans, name)
		for range 10 {
			got.shrink()
		}
		assert.Len(t, got.slots, tableSize, name)
	}
}
