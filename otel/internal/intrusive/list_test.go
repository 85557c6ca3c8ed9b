package intrusive

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type element struct {
	a, b Link[element]
}

// Two lists that share their elements, against slices.
func TestListIsASliceWithoutMoves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lists := [2]List[element]{
		{Of: func(e *element) *Link[element] { return &e.a }},
		{Of: func(e *element) *Link[element] { return &e.b }},
	}
	models := make([][]*element, 2)
	all := make([]element, 8)
	for range 10_000 {
		i, e := rng.IntN(2), &all[rng.IntN(len(all))]
		l, m := &lists[i], &models[i]
		if at := slices.Index(*m, e); at < 0 && rng.IntN(2) == 0 {
			l.Push(e)
			*m = append(*m, e)
		} else {
			l.Remove(e) // also one that is not in
			if at >= 0 {
				*m = slices.Delete(*m, at, at+1)
			}
		}
		require.Equal(t, len(*m), l.Len, "elements")
		var forth, back []*element
		for e := l.Oldest; e != nil; e = l.Of(e).next {
			forth = append(forth, e)
		}
		for e := l.Newest; e != nil; e = l.Of(e).prev {
			back = append(back, e)
		}
		slices.Reverse(back)
		if !slices.Equal(forth, *m) || !slices.Equal(back, *m) {
			t.Fatalf("forth %v, back %v, want %v", forth, back, *m)
		}
	}
}
