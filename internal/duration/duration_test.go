package duration

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

func TestParse(t *testing.T) {
	const h = time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "300ms": 300 * time.Millisecond, "1h30m": 90 * time.Minute, "1d": 24 * h, "7d": 168 * h, "1d12h": 36 * h, "0.5d": 12 * h,
		"-1d12h": -36 * h, "36500d": 36500 * 24 * h,
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "7", "1h2d", "1d-1h", "1dd", "7days", "1e3d", "1d5", "200000d", "106751d24h", ".d", "xd", "1w"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"7d": 168 * time.Hour, "1h": time.Hour, "1h30m": 90 * time.Minute, "25h": 25 * time.Hour, "0s": 0, "1m30s": 90 * time.Second, "10m": 10 * time.Minute,
		"10s": 10 * time.Second, "-2d": -48 * time.Hour,
	} {
		if got := Format(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add(int64(time.Hour))
	f.Add(int64(25 * time.Hour))
	f.Fuzz(func(t *testing.T, n int64) {
		if got, err := Parse(Format(time.Duration(n))); err != nil || got != time.Duration(n) {
			t.Errorf("%v: %v, %v", time.Duration(n), got, err)
		}
	})
}

func TestVar(t *testing.T) {
	d := 7 * day
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Var(fs, &d, "last", "")
	assert.Equal(t, "7d", fs.Lookup("last").DefValue, "default")
	if err := fs.Parse([]string{"--last", "1d"}); err != nil || d != day {
		t.Errorf("%v, %v", d, err)
	}
}
