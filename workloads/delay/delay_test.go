package delay

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShareAndRange(t *testing.T) {
	all, err := Parse("geo:25ms-30ms:0.03,memcached-rate:1s:0.5")
	require.NoError(t, err)
	const requests = 200_000
	var geo, both int
	var sum time.Duration
	for n := range uint64(requests) {
		d := all.Of("geo", n)
		if d == 0 {
			continue
		}
		geo++
		sum += d
		if d < 25*time.Millisecond || d > 30*time.Millisecond || d != all.Of("geo", n) {
			t.Fatalf("request %d: %v, then %v", n, d, all.Of("geo", n))
		}
		if other := all.Of("memcached-rate", n); other == time.Second {
			both++
		} else if other != 0 {
			t.Fatalf("request %d: %v", n, other)
		}
	}
	within := func(what string, got, n, p float64) {
		if d := 5 * math.Sqrt(n*p*(1-p)); math.Abs(got-n*p) > d {
			t.Errorf("%s: %v of %v, want %v ± %v", what, got, n, n*p, d)
		}
	}
	within("geo", float64(geo), requests, 0.03)
	within("both", float64(both), float64(geo), 0.5) // independent
	if mean := sum / time.Duration(geo); mean < 27400*time.Microsecond || mean > 27600*time.Microsecond {
		t.Errorf("mean %v", mean)
	}
	assert.EqualValues(t, 0, all.Of("search", 1), "search")
}

func TestParse(t *testing.T) {
	for _, text := range []string{
		"geo", "geo:1ms", ":1ms:1", "geo:x:1", "geo:1ms-x:1", "geo:2ms-1ms:1", "geo:-1ms:1", "geo:11s:1",
		"geo:1ms:2", "geo:1ms:NaN", "geo:1ms:x", "geo:1ms:1,", "geo:1ms:1,geo:2ms:1",
	} {
		if all, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, all)
		}
	}
	if all, err := Parse(""); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}
