package progress

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := New(&out, []Step{{"one", 10 * time.Second}, {"two", 20 * time.Second}})
	p.Begin("one")
	now := p.stepped
	assert.EqualValues(t, 26*time.Second, p.remaining(now.Add(4*time.Second)), "remaining")
	p.Fraction(0.5)
	assert.EqualValues(t, 50*time.Second, p.remaining(now.Add(30*time.Second)))
	p.Begin("two")
	assert.EqualValues(t, 0, p.remaining(p.stepped.Add(time.Minute)), "remaining")
	p.Stop()
	p.took, p.guessed = 50*time.Second, 10*time.Second // step one on a slow machine
	p.later = 20 * time.Second
	assert.EqualValues(t, 110*time.Second, p.remaining(p.stepped.Add(10*time.Second)))
	// Step one took no time, in place of 10 s.
	if want := "0:00 elapsed, about 0:30 remaining: one\n0:00 elapsed, about 0:10 remaining: two\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	assert.Equal(t, "2:05", clock(125*time.Second), "clock")
}
