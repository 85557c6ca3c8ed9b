package stats

import (
	"fmt"
	"math"
	"strconv"
)

// String writes the estimate for people, never as a bare number:
// "1.074 (1.050–1.092, n=14)", with any warning behind n. The digits are those
// that the interval's width lets stand: its first two.
func (e Estimate) String() string {
	warning := ""
	if e.Warning != "" {
		warning = "; " + e.Warning
	}
	if e.N == 0 {
		return "no estimate (n=0" + warning + ")"
	}
	width := e.Hi - e.Lo
	if width == 0 {
		width = math.Abs(e.Median) / 100 // four digits or so
	}
	d := decimals(width)
	to := "–"
	if e.Lo < 0 {
		to = " to " // a dash would look like a sign
	}
	return fmt.Sprintf("%s (%s%s%s, n=%d%s)", number(e.Median, d), number(e.Lo, d), to, number(e.Hi, d), e.N, warning)
}

// decimals is how many places behind the point show the first two digits of x;
// less than 0 if they end before it.
func decimals(x float64) int {
	if x == 0 || !finite(x) {
		return 0
	}
	return 1 - int(math.Floor(math.Log10(math.Abs(x))))
}

// number writes x with that many decimals; a negative number of them rounds to
// tens, hundreds … Beyond what people read as a plain number it has an exponent.
func number(x float64, decimals int) string {
	if decimals > 9 || math.Abs(x) >= 1e12 {
		digits := 2
		if x != 0 {
			digits = int(math.Floor(math.Log10(math.Abs(x)))) + decimals
		}
		return strconv.FormatFloat(x, 'e', min(max(digits, 1), 16), 64)
	}
	if decimals < 0 {
		unit := math.Pow10(-decimals)
		x = math.Round(x/unit) * unit
	}
	s := strconv.FormatFloat(x, 'f', max(decimals, 0), 64)
	if zero, err := strconv.ParseFloat(s, 64); err == nil && zero == 0 && s[0] == '-' {
		return s[1:] // "-0.00" is none
	}
	return s
}
