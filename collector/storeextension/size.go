package storeextension

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes, written as "10GiB", "500MB" or 1000000.
type Size int64

// UnmarshalText parses a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is no size: write a number of bytes, or one with a unit, such as 10GiB or 500MB", text)
	}
	*s = Size(n)
	return nil
}

// MarshalText formats a size.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Size) String() string { return humanize.IBytes(uint64(max(s, 0))) }
