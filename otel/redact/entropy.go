package redact

import "math"

const (
	entropyBytes = 24
	// entropyBits a character: random base64 of 24 characters has about 4.2,
	// words joined to an identifier about 3.5; hexadecimal has at most 4 and
	// is left, because trace ids, UUIDs without dashes and digests are hexadecimal.
	entropyBits = 3.9
	// entropyDigits: entropy alone takes getUserByIdAndStatusOrNull2 for a key.
	entropyDigits = 2
)

// entropy replaces words that mix lower case, upper case and digits, and are as
// unpredictable as a random key. A slash parts words, or paths would be words.
func (sc *scanner) entropy(s string) string {
	var ms []match
	for i := 0; i < len(s); i++ {
		start := i
		for i < len(s) && (isBase64URL(s[i]) || s[i] == '+') {
			i++
		}
		if i-start >= entropyBytes && isRandom(s[start:i]) {
			ms = append(ms, match{start, i, sc.by.entropy})
		}
	}
	if len(ms) == 0 {
		return s
	}
	return sc.rewrite(s, ms)
}

func isRandom(word string) bool {
	var count [256]int
	var lower, upper bool
	digits := 0
	for i := range len(word) {
		c := word[i]
		count[c]++
		lower = lower || 'a' <= c && c <= 'z'
		upper = upper || 'A' <= c && c <= 'Z'
		if isDigit(c) {
			digits++
		}
	}
	if !lower || !upper || digits < entropyDigits {
		return false
	}
	bits, n := 0.0, float64(len(word))
	for _, k := range count {
		if k > 0 {
			f := float64(k) / n
			bits -= f * math.Log2(f)
		}
	}
	return bits >= entropyBits
}
