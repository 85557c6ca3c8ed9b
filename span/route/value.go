package route

import "strings"

// Lengths by which a segment is taken for a value.
const (
	hexLength   = 8  // of hexadecimal digits, one of them 0 to 9
	tokenLength = 20 // of letters and digits, some of them digits
	longWord    = 64
)

// IsValue reports whether a segment of a path looks like a value: a number, also with
// signs, dots and dashes in it as dates and addresses have; a UUID; a hash; a token;
// anything with an @ or that is escaped; anything very long. What comes after the last
// dot may be a file's extension. Names with a digit or two, such as v2 or oauth2, are words.
func IsValue(s string) bool {
	if len(s) > longWord || strings.ContainsAny(s, "@%=") {
		return true
	}
	if i := strings.LastIndexByte(s, '.'); i > 0 && len(s)-i <= 6 {
		return looksLikeValue(s[:i]) || looksLikeValue(s)
	}
	return looksLikeValue(s)
}

func looksLikeValue(s string) bool {
	var digits, hex, letters, marks int
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
			hex++
		case c >= 'g' && c <= 'z' || c >= 'G' && c <= 'Z':
			letters++
		case c == '-' || c == '_' || c == '.' || c == ':' || c == ',' || c == '+' || c == '~':
			marks++
		default: // not ASCII: a word of another language
			letters++
		}
	}
	switch {
	case digits == 0:
		return false
	case hex+letters == 0:
		return true
	case letters == 0 && digits+hex >= hexLength:
		return true
	}
	return digits+hex+letters >= tokenLength && digits >= 3 && (marks == 0 || digits*3 >= hex+letters)
}
