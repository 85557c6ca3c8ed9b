package load

import (
	"math"
	"testing"
	"time"
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
			if got := s.due(at, math.MaxInt64); got != k+1 {
				t.Errorf("rate %v: %d due at %v, when number %d is", rate, got, at, k)
			}
			if got := s.due(at-1, math.MaxInt64); got != k {
				t.Errorf("rate %v: %d due just before number %d is", rate, got, k)
			}
			if got := s.due(time.Hour*1000, at); at < time.Hour && got != k {
				t.Errorf("rate %v: %d due before the end at %v, when number %d would be", rate, got, at, k)
			}
		}
	}
	if got := (schedule{rate: 10, limit: 5}).due(time.Second, math.MaxInt64); got != 5 {
		t.Errorf("%d of 5 requests", got)
	}
	if got := (schedule{}).due(time.Second, math.MaxInt64); got != 0 {
		t.Errorf("%d due in a closed loop", got)
	}
	if got := (schedule{rate: 1e-12}).at(math.MaxUint64); got != math.MaxInt64 {
		t.Errorf("the end of time is %v", got)
	}
}
