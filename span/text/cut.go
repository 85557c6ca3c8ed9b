package text

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds in bytes, where none is configured.
const (
	MaxName  = 1024     // of a name: of a service, a span, an event, a scope, a metric
	MaxKey   = 256      // of an attribute's key
	MaxValue = 32 << 10 // of a text in an attribute's value
	MaxState = 512      // of a tracestate: what W3C Trace Context asks everybody to pass on
)

// MostName is the longest name that can be configured, and the bound of a name in the store's dictionaries.
const MostName = 4 << 10

// MinBound is the least bound that [Name] and [Value] keep: a mark has room in it.
const MinBound = 64

// A cut name ends with hashMark and hashDigits hexadecimal digits; a cut value with valueMark, the number of bytes
// that were cut off, and valueEnd.
const (
	hashMark   = "…#"
	hashDigits = 16
	valueMark  = "…[+"
	valueEnd   = " bytes]"
)

// Name cuts a name that is longer than most bytes to a name of at most so many. It ends with "…#" and the first 64
// bits of the SHA-256 of the whole name, in hexadecimal, so that names stay different that begin alike.
func Name(s string, most int) string {
	if most = max(most, MinBound); len(s) <= most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return begin(s, most-len(hashMark)-hashDigits) + hashMark + hex.EncodeToString(sum[:hashDigits/2])
}

// Value cuts a text that is longer than most bytes to one of at most so many. It ends with "…[+N bytes]". Nothing of
// what is cut off can be found out from it but its length.
func Value(s string, most int) string {
	if most = max(most, MinBound); len(s) <= most {
		return s
	}
	kept := begin(s, most-len(valueMark)-len(valueEnd)-len(strconv.Itoa(len(s))))
	return kept + valueMark + strconv.Itoa(len(s)-len(kept)) + valueEnd
}

// begin is the first n bytes of s, or up to three less, so that it does not end within a character.
func begin(s string, n int) string {
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return strings.Clone(s[:i]) // the rest can be freed
		}
	}
	return strings.Clone(s[:n]) // not UTF-8
}

// Split returns what [Name] or [Value] left of a text, and the mark that it put behind. The mark of others is "".
func Split(s string) (kept, mark string) {
	at := -1
	switch {
	case strings.HasSuffix(s, valueEnd):
		at = strings.LastIndex(s, valueMark)
		if at >= 0 && !all(s[at+len(valueMark):len(s)-len(valueEnd)], '0', '9') {
			at = -1
		}
	case len(s) >= len(hashMark)+hashDigits:
		at = len(s) - len(hashMark) - hashDigits
		if !strings.HasPrefix(s[at:], hashMark) || strings.Trim(s[at+len(hashMark):], "0123456789abcdef") != "" {
			at = -1
		}
	}
	if at < 0 {
		return s, ""
	}
	return s[:at], s[at:]
}

func all(s string, from, to byte) bool {
	for i := range len(s) {
		if s[i] < from || s[i] > to {
			return false
		}
	}
	return s != ""
}

// unfinished is how many bytes before a cut are taken for the beginning of something.
const unfinished = 128

// Finished is what of the beginning of a text is not itself the beginning of something that was cut in two: of a
// secret, which could not be recognised by its first half. It ends at least 128 bytes before the cut, and before the
// word that goes on to it: letters, digits, and what tokens, URLs and addresses have between them.
func Finished(s string) string {
	word := strings.LastIndexFunc(s, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune("\"'`,;(){}[]<>|&\\", r)
	})
	end := max(min(len(s)-unfinished, word+1), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// State cuts a tracestate as W3C Trace Context says (3.3.1.5): members of more than 128 bytes go first, then those
// at the end, until at most most bytes are left. No member is cut in two.
func State(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const long = 128
	var kept []string
	size := -1
	for m := range strings.SplitSeq(s, ",") {
		if len(m) <= long {
			if size += 1 + len(m); size > most {
				break
			}
			kept = append(kept, m)
		}
	}
	return strings.Join(kept, ",")
}
