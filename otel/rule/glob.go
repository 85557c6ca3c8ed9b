package rule

import (
	"errors"
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	literal tokenKind = iota
	one               // ?
	segment           // *
	rest              // **
)

type token struct {
	kind tokenKind
	text string // of a literal, not empty
}

func compileGlob(text string) ([]token, error) {
	var tokens []token
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			tokens = append(tokens, token{literal, lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i++; i == len(text) {
				return nil, errors.New(`ends in a backslash: write \\ for the backslash itself`)
			}
			lit.WriteByte(text[i])
		case '?':
			flush()
			tokens = append(tokens, token{kind: one})
		case '*':
			flush()
			kind := segment
			for i+1 < len(text) && text[i+1] == '*' {
				kind = rest
				i++
			}
			// Adjacent runs are impossible: all stars in a row are one token.
			tokens = append(tokens, token{kind: kind})
		default:
			lit.WriteByte(c)
		}
	}
	flush()
	return tokens, nil
}

// matchGlob matches by two points to return to: behind the last *, and behind
// the last **. When the text after a * does not match, the * takes one
// character more; when it may not (a slash), the ** before it does. A later
// wildcard of the same kind makes an earlier one's position final: whatever the
// earlier one could still reach, the later one can too. So the time is bounded
// by the square of the text's length for each pattern, never exponential.
func matchGlob(tokens []token, s string) bool {
	t := 0
	star, starAt := -1, ""     // token behind *, text where it is tried
	double, doubleAt := -1, "" // the same for **
	for {
		if t == len(tokens) {
			if s == "" {
				return true
			}
		} else {
			switch tok := tokens[t]; tok.kind {
			case rest:
				t++
				double, doubleAt = t, s
				star = -1
				if t == len(tokens) {
					return true
				}
				continue
			case segment:
				t++
				star, starAt = t, s
				continue
			case one:
				if s != "" && s[0] != '/' {
					_, n := utf8.DecodeRuneInString(s)
					s = s[n:]
					t++
					continue
				}
			case literal:
				if strings.HasPrefix(s, tok.text) {
					s = s[len(tok.text):]
					t++
					continue
				}
			}
		}
		switch {
		case star >= 0 && starAt != "" && starAt[0] != '/':
			_, n := utf8.DecodeRuneInString(starAt)
			starAt = starAt[n:]
			t, s = star, starAt
		case double >= 0 && doubleAt != "":
			_, n := utf8.DecodeRuneInString(doubleAt)
			doubleAt = doubleAt[n:]
			t, s = double, doubleAt
			star = -1
		default:
			return false
		}
	}
}
