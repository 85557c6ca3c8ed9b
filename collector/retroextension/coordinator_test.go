package retroextension

import (
	"fmt"
	"testing"
	"time"

	"github.com/tare-trace/tare/span/keep"
)

// clocked is a coordinator whose time stands still.
func clocked(rate int) (*coordinator, *time.Time) {
	now := time.Unix(1_000_000, 0)
	return newCoordinator(rate, func() time.Time { return now }), &now
}

func keeps(from, to int) (all []keep.Keep) {
	for n := from; n < to; n++ {
		all = append(all, keep.Keep{TraceID: trace(n), Service: "shop", Reason: keep.Error, Time: time.Unix(1, 0)})
	}
	return all
}

func TestRepeatedAndOld(t *testing.T) {
	c, now := clocked(500)
	if n := c.add("a", keeps(0, 10)); n != 0 {
		t.Errorf("%d are limited", n)
	}
	c.add("b", keeps(5, 15))
	got, at, _ := c.since("x", keep.Position{})
	if len(got) != 15 || at != (keep.Position{Epoch: c.epoch, N: 15}) || !got[0].Time.IsZero() || c.counts.repeated != 5 {
		t.Errorf("%d keeps to %v, %+v", len(got), at, c.counts)
	}
	if got, _, _ := c.since("a", keep.Position{Epoch: c.epoch, N: 3}); len(got) != 5 || got[0].TraceID != trace(10) {
		t.Errorf("to a: %v", got)
	}
	// A position of another epoch, or of none, begins anew.
	for _, p := range []keep.Position{{Epoch: 7, N: 12}, {Epoch: c.epoch, N: 16}} {
		if got, _, _ := c.since("x", p); len(got) != 15 {
			t.Errorf("after %v: %d keeps", p, len(got))
		}
	}
	*now = now.Add(keep.MaxAge + time.Second)
	c.add("b", keeps(0, 1)) // passed on again
	if got, at, _ := c.since("a", keep.Position{Epoch: c.epoch, N: 10}); len(got) != 1 || at.N != 16 || c.counts.missed != 5 || len(c.kept) != 1 {
		t.Errorf("%v to %v, %+v", got, at, c.counts)
	}
}

func TestBoundedMemory(t *testing.T) {
	c, now := clocked(maxTraces)
	for s := range 9 {
		*now = now.Add(time.Second)
		c.add("a", keeps(s*9000, s*9000+9000))
	}
	if len(c.ring) != maxRing || len(c.kept) != maxRing {
		t.Errorf("%d keeps, %d ids, %+v", len(c.ring), len(c.kept), c.counts)
	}
	if got, at, _ := c.since("x", keep.Position{}); len(got) != keep.MaxKeeps || at.N != c.base+keep.MaxKeeps-1 {
		t.Errorf("an answer of %d keeps to %v", len(got), at)
	}
	for i := range maxAgents {
		if _, err := c.join(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.join("one more"); err == nil {
		t.Error("there is no limit of agents")
	}
	*now = now.Add(keep.MaxAge + time.Second)
	if _, err := c.join("one more"); err != nil || len(c.agents) != 1 {
		t.Errorf("after the others have gone: %v, %d agents", err, len(c.agents))
	}
}
