package redact

import (
	"math"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
)

const (
	cardLeast = 13
	cardMost  = 19
)

// cardEnd returns the end of the payment card number that begins at i (ISO/IEC
// 7812), 0 if there is none. Groups may have any size, but all separators of a
// number are of one kind. The longest number that is valid wins.
func cardEnd(s string, i int) int {
	var number [cardMost]byte
	n, best, kind := 0, 0, byte(0)
	for {
		for i < len(s) && isDigit(s[i]) {
			if n == cardMost {
				return best
			}
			number[n] = s[i]
			n++
			i++
		}
		if n >= cardLeast && endsNumber(s, i, kind) && isCard(number[:n]) {
			best = i
		}
		length, k := separator(s, i)
		if length == 0 || kind != 0 && k != kind || i+length >= len(s) || !isDigit(s[i+length]) {
			return best
		}
		kind = k
		i += length
	}
}

// endsNumber reports whether no letter follows, nor a decimal fraction.
func endsNumber(s string, i int, kind byte) bool {
	if i == len(s) {
		return true
	}
	if s[i] == '.' && kind != '.' {
		return i+1 == len(s) || !isDigit(s[i+1])
	}
	return !isAlnum(s[i])
}

func isCard(number []byte) bool { return isIssued(number) && luhn(number) }

// isIssued knows the ranges and lengths of the large networks: American
// Express, Diners, Discover, JCB, Maestro, Mastercard, Mir, UnionPay, Visa.
// None begins with 1, so timestamps and snowflake ids of our days are out.
func isIssued(number []byte) bool {
	n := len(number)
	four := 0
	for _, c := range number[:4] {
		four = four*10 + int(c-'0')
	}
	two := four / 100
	switch {
	case two/10 == 4:
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return n == 16
	case two == 34 || two == 37:
		return n == 15
	case four/10 >= 300 && four/10 <= 305, two == 36, two == 38, two == 39:
		return n >= 14
	case four >= 3528 && four <= 3589, four == 6011, two == 62, two == 65, four/10 >= 644 && four/10 <= 649, four >= 2200 && four <= 2204:
		return n >= 16
	case two == 50, two >= 56 && two <= 69:
		return true
	}
	return false
}

func luhn(number []byte) bool {
	sum := 0
	for i, c := range number {
		d := int(c - '0')
		if (len(number)-i)%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// wholeFloats is the bound under which every whole float64 is exact.
const wholeFloats = 1 << 53

// cardNumber returns a number's digits if they are a card's. Services keep
// cards in integers, and JSON decoders make floats of them.
func cardNumber(v attribute.Value) (string, bool) {
	switch v.Type() {
	case attribute.INT64:
		return cardInt(v.AsInt64())
	case attribute.FLOAT64:
		return cardFloat(v.AsFloat64())
	}
	return "", false
}

func cardInt(n int64) (string, bool) {
	if n < 1e12 {
		return "", false
	}
	var room [20]byte
	digits := strconv.AppendInt(room[:0], n, 10)
	if !isCard(digits) {
		return "", false
	}
	return string(digits), true
}

func cardFloat(f float64) (string, bool) {
	if !(f >= 1e12 && f < wholeFloats) || f != math.Trunc(f) {
		return "", false
	}
	return cardInt(int64(f))
}
