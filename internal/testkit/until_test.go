package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBusy(t *testing.T) {
	for text, want := range map[string]float64{
		"0.20 0.18 0.12 1/80 11206\n": 1,
		"6.00 0.18 0.12 1/80 11206\n": 3,
		"0.20 0.18 0.12 8/80 11206\n": 4,
		"6.00 0.18 0.12 8/80 11206\n": 4,
		"":                            1,
		"a b c d":                     1,
	} {
		if got := busy(text, 2); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// A limit of an idle machine lasts four times as long, and so many times longer as threads want to run.
func TestDeadline(t *testing.T) {
	begun := time.Now()
	d := &Deadline{left: margin * time.Second, last: begun, busy: 3, asked: begun.Add(time.Hour)}
	for _, tt := range []struct {
		at   time.Duration // since the beginning, as the clock has it
		over bool
	}{{time.Second, false}, {10 * time.Second, false}, {time.Second / 2, false}, {time.Second, true}} {
		d.last = d.last.Add(-tt.at)
		assert.Equal(t, tt.over, d.Over(), "another %v later", tt.at)
	}
	assert.False(t, ComesTrue(time.Millisecond, func() bool { return false }), "what never holds came true")
}
