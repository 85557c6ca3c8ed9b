package hotel

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Of any 200 requests, the mix is exact; of many, each city gets a tenth of every
// kind, the rare ones included.
func TestMix(t *testing.T) {
	const rounds = 1000
	kinds := map[Kind]int{}
	cities := map[Kind]map[int]int{}
	for n := uint64(12345); n < 12345+rounds*cycle; n++ {
		k, c := KindOf(n), CityOf(n)
		kinds[k]++
		if cities[k] == nil {
			cities[k] = map[int]int{}
		}
		cities[k][c]++
	}
	for k, want := range map[Kind]int{Search: 120 * rounds, Recommend: 78 * rounds, User: rounds, Reserve: rounds} {
		assert.Equal(t, want, kinds[k], "kind %d", k)
		for c := range Cities {
			if got := cities[k][c] * len(Cities); got < want*8/10 || got > want*12/10 {
				t.Errorf("kind %d, city %d: %d of %d", k, c, cities[k][c], want)
			}
		}
	}
	within := map[Kind]int{}
	for n := uint64(777); n < 777+cycle; n++ {
		within[KindOf(n)]++
	}
	if within[Search] != 120 || within[Recommend] != 78 || within[User] != 1 || within[Reserve] != 1 {
		t.Errorf("of 200 in a row: %v", within)
	}
}
