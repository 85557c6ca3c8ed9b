// Package duration reads durations as users give them: in flags, files and queries. They are
// Go's (500ms, 1h30m) and may begin with days of 24 hours (7d, 1d12h, 0.5d).
package duration

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const day = 24 * time.Hour

// Parse reads a duration.
func Parse(text string) (time.Duration, error) {
	fail := fmt.Errorf("%q is no duration: write it with a unit, such as 500ms, 10m, 12h or 7d", text)
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fail
		}
		return d, nil
	}
	if strings.Trim(days, "+-.0123456789") != "" || strings.ContainsAny(rest, "+-") {
		return 0, fail
	}
	d, err := time.ParseDuration(days + "h")
	if err != nil || d.Abs() > math.MaxInt64/24 {
		return 0, fail
	}
	d *= 24
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if strings.HasPrefix(days, "-") {
		more = -more
	}
	if sum := d + more; err == nil && (sum < d) == (more < 0) {
		return sum, nil
	}
	return 0, fail
}

// Format writes a duration so that Parse reads it: whole days as days, and no zeros behind.
func Format(d time.Duration) string {
	if d != 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Duration is one that files and flags have as text.
type Duration time.Duration

// Std is the duration as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes it as it is read.
func (d Duration) String() string { return Format(time.Duration(d)) }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error { return d.Set(string(text)) }

// Set implements pflag.Value.
func (d *Duration) Set(text string) error {
	v, err := Parse(text)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// Type implements pflag.Value.
func (*Duration) Type() string { return "duration" }

// Var defines a flag whose default is what d points to.
func Var(f *pflag.FlagSet, d *time.Duration, name, usage string) { f.Var((*Duration)(d), name, usage) }
