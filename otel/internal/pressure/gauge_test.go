package pressure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestGauge(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := &Gauge{Now: func() time.Time { return now }}
	is := func(want float64) {
		t.Helper()
		if got := g.Value(); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	is(0)
	g.Begin()
	is(0)
	now = now.Add(3 * time.Second)
	is(0.1) // it takes long
	g.Refused()
	is(0.5)
	g.Refused()
	is(0.75)
	now = now.Add(15 * time.Second)
	is(0.75) // not over: the attempt is repeated
	g.Refused()
	now = now.Add(time.Minute)
	is(most)
	g.End(false)
	is(0.875)
	now = now.Add(10 * time.Second)
	is(0.4375) // without any export
	g.Begin()
	g.End(true)
	is(0.21875)
	for range 5 {
		g.Begin()
		g.End(true)
	}
	is(0)
	for range 100 {
		g.Refused()
	}
	is(most)
	now = now.Add(time.Minute)
	is(0)
}

func TestConcurrentExports(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := &Gauge{Now: func() time.Time { return now }}
	g.Begin()
	now = now.Add(10 * time.Second)
	g.Begin()
	now = now.Add(5 * time.Second)
	assert.Equal(t, 0.5, g.Value(), "of the one that has taken 15 s")
	g.End(true)
	assert.EqualValues(t, 0, g.Value(), "after an export was accepted")
	g.End(true)
}
