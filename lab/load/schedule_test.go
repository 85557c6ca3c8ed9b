package load

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// due must be the exact inverse of at, or a request would be sent twice or never.
func TestScheduleCountsWhatIsDue(t *testing.T) {
	for _, rate := range []float64{0.001, 1, 3, 777, 9999.5, 1e5, MaxRate} {
		s := schedule{rate: rate}
		for _, k := range []uint64{0, 1, 2, 3, 999, 123_456, 1 << 31} {
			at := s.at(k)
			if at == math.MaxInt64 {
				continue
			}
			assert.Equal(t, k+1, s.due(at, math.MaxInt64), "rate %v: due at %v", rate, at)
			assert.Equal(t, k, s.due(at-1, math.MaxInt64), "rate %v: due just before number %d", rate, k)
			if got := s.due(time.Hour*1000, at); at < time.Hour && got != k {
				t.Errorf("rate %v: %d due before the end at %v, when number %d would be", rate, got, at, k)
			}
		}
	}
	assert.EqualValues(t, 5, (schedule{rate: 10, limit: 5}).due(time.Second, math.MaxInt64), "of 5 requests")
	assert.EqualValues(t, 0, (schedule{}).due(time.Second, math.MaxInt64), "due in a closed loop")
	assert.EqualValues(t, math.MaxInt64, (schedule{rate: 1e-12}).at(math.MaxUint64), "the end of time")
}
