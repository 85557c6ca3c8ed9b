package store

import (
	"math/rand/v2"
	"testing"
)

// Everything that was added is found, whatever the number, and of what was not
// less than one in 500.
func TestFilter(t *testing.T) {
	var f filterBuilder
	for _, n := range []int{0, 1, 100, 3000, 100_000} {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		f.reset()
		added := make([]uint64, n)
		for i := range added {
			added[i] = r.Uint64()
			f.add(added[i])
			f.add(added[i])
		}
		var parts [filterParts]filter
		for i := range parts {
			got, err := parseFilters(f.appendTo(nil, i), 1)
			if err != nil {
				t.Fatal(err)
			}
			parts[i] = got[0]
		}
		for _, h := range added {
			if !parts[filterPart(h)].has(h) {
				t.Fatalf("%d: %x is not found", n, h)
			}
		}
		wrong := 0
		for range 50_000 {
			if h := r.Uint64(); parts[filterPart(h)].has(h) {
				wrong++
			}
		}
		if wrong > 100 {
			t.Errorf("%d: %d of 50000 in error", n, wrong)
		}
	}
}
