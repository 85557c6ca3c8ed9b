package progress

import (
	"bytes"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := New(&out, []Step{{"one", 10 * time.Second}, {"two", 20 * time.Second}})
	p.Begin("one")
	now := p.stepped
	if got := p.remaining(now.Add(4 * time.Second)); got != 26*time.Second {
		t.Errorf("remaining %v", got)
	}
	p.Fraction(0.5)
	if got := p.remaining(now.Add(30 * time.Second)); got != 50*time.Second {
		t.Errorf("remaining %v at half of a step that took 30 s so far", got)
	}
	p.Begin("two")
	if got := p.remaining(p.stepped.Add(time.Minute)); got != 0 {
		t.Errorf("remaining %v", got)
	}
	p.Stop()
	p.took, p.guessed = 50*time.Second, 10*time.Second // step one on a slow machine
	p.later = 20 * time.Second
	if got := p.remaining(p.stepped.Add(10 * time.Second)); got != 110*time.Second {
		t.Errorf("remaining %v, want what is left of two steps of 20 s, three times as long", got)
	}
	// Step one took no time, in place of 10 s.
	if want := "0:00 elapsed, about 0:30 remaining: one\n0:00 elapsed, about 0:10 remaining: two\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if clock(125*time.Second) != "2:05" {
		t.Errorf("clock %s", clock(125*time.Second))
	}
}
