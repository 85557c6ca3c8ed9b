package retroextension

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

// trace is the id with a number. Only its hash is random.
func trace(n int) (id span.TraceID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

// offers are keeps of a service in a second.
type offers struct {
	service string
	n       int
}

// second offers keeps one after the other, and returns how many of each service pass.
func second(l *limiter, at time.Time, first int, all ...offers) map[string]int {
	passed := map[string]int{}
	for _, o := range all {
		for i := range o.n {
			if l.allow(at, class{o.service, keep.Error}, trace(first+i)) {
				passed[o.service]++
			}
		}
	}
	return passed
}

func TestFairShares(t *testing.T) {
	begun := time.Unix(1, 0)
	l := newLimiter(500, begun)
	// Nothing is known of the first second: who comes first has half, and who comes later has some.
	got := second(l, begun, 0, offers{"flood", 20_000}, offers{"later", 100}, offers{"last", 20})
	if got["flood"] != 250 || got["later"] != 100 || got["last"] != 20 {
		t.Errorf("first second: %v", got)
	}
	for s := 1; s < 10; s++ {
		got = second(l, begun.Add(time.Duration(s)*time.Second), 20_000*s, offers{"flood", 20_000}, offers{"later", 100}, offers{"new" + fmt.Sprint(s), 5}, offers{"last", 20})
		if sum := got["flood"] + got["later"] + got["last"] + got["new"+fmt.Sprint(s)]; sum > 500 || got["flood"] < 250 || got["later"] != 100 || got["last"] != 20 || got["new"+fmt.Sprint(s)] != 5 {
			t.Errorf("second %d: %v", s, got)
		}
	}
	// When the flood is over, all passes after one second.
	second(l, begun.Add(10*time.Second), 0, offers{"flood", 10})
	if got = second(l, begun.Add(11*time.Second), 0, offers{"flood", 200}); got["flood"] != 200 {
		t.Errorf("afterwards: %v", got)
	}
}

// With more classes than traces, some of each second pass, and memory is bounded.
func TestManyClasses(t *testing.T) {
	begun := time.Unix(1, 0)
	l := newLimiter(500, begun)
	for s := range 4 {
		passed := 0
		for i := range 3 * maxClasses {
			if l.allow(begun.Add(time.Duration(s)*time.Second), class{fmt.Sprint("service ", i), keep.Slow}, trace(s*100_000+i)) {
				passed++
			}
		}
		if passed > 500 || s > 0 && passed < 300 {
			t.Errorf("second %d: %d pass", s, passed)
		}
	}
	if len(l.classes) > maxClasses+1 {
		t.Errorf("%d classes", len(l.classes))
	}
}

// Coordinators with the same keeps in another order choose nearly the same traces.
func TestSameChoice(t *testing.T) {
	begun := time.Unix(1, 0)
	choose := func(step int) map[span.TraceID]bool {
		l, chosen := newLimiter(500, begun), map[span.TraceID]bool{}
		for s := range 5 {
			for i := range 10_000 {
				id := trace(10_000*s + (i*step)%10_000)
				if l.allow(begun.Add(time.Duration(s)*time.Second), class{"a", keep.Error}, id) && s > 0 {
					chosen[id] = true
				}
			}
		}
		return chosen
	}
	a, b := choose(1), choose(7919)
	both := 0
	for id := range a {
		if b[id] {
			both++
		}
	}
	if len(a) < 4*400 || both < len(a)*95/100 {
		t.Errorf("%d and %d traces, %d are in both", len(a), len(b), both)
	}
}
