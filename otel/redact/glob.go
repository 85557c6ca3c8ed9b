package redact

import (
	"errors"
	"strings"
)

// glob is a compiled key pattern: lower-case letters stand for themselves in
// either case, '*' for any characters, '_' for any number of separators.
type glob struct {
	text string
	tail bool // without a dot: also tried on what follows the last dot
}

func newGlob(pattern string) (glob, error) {
	if pattern == "" {
		return glob{}, errors.New("a key pattern is empty: name a key, or use * for all")
	}
	var b strings.Builder
	for i := range len(pattern) {
		c := lower(pattern[i])
		if isSeparator(c) {
			c = '_'
		}
		if n := b.Len(); (c == '_' || c == '*') && n > 0 && b.String()[n-1] == c {
			continue
		}
		b.WriteByte(c)
	}
	return glob{text: b.String(), tail: !strings.Contains(pattern, ".")}, nil
}

func newGlobs(patterns []string) ([]glob, error) {
	out := make([]glob, len(patterns))
	for i, p := range patterns {
		var err error
		if out[i], err = newGlob(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// matches reports whether g names key, or its last part if g has no dot.
func (g glob) matches(key string) bool {
	if g.whole(key) {
		return true
	}
	if !g.tail {
		return false
	}
	i := strings.LastIndexAny(key, ".[")
	return i >= 0 && g.whole(strings.TrimSuffix(key[i+1:], "]"))
}

// whole goes back to the last star only, so it takes at most len(s)·len(g) steps.
func (g glob) whole(s string) bool {
	i, p, star, mark := 0, 0, -1, 0
	for {
		if p < len(g.text) {
			switch c := g.text[p]; {
			case c == '*':
				star, mark = p, i
				p++
				continue
			case c == '_':
				for i < len(s) && isSeparator(s[i]) {
					i++
				}
				p++
				continue
			case i < len(s) && lower(s[i]) == c:
				i++
				p++
				continue
			}
		} else if i == len(s) {
			return true
		}
		if star < 0 || mark >= len(s) {
			return false
		}
		mark++
		i, p = mark, star+1
	}
}

func anyMatches(gs []glob, key string) bool {
	for _, g := range gs {
		if g.matches(key) {
			return true
		}
	}
	return false
}

func isSeparator(c byte) bool { return c == '-' || c == '_' || c == ' ' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
