package rule

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// Pattern matches text: exactly, by a glob, or by a regular expression.
type Pattern struct {
	text  string         // as written
	exact string         // if glob and re are nil
	glob  []token        // if the text has wildcards
	re    *regexp.Regexp // if the text begins with ~
}

// maxPattern bounds what a configuration can make every decision pay.
const maxPattern = 4096

// CompilePattern compiles the text of a pattern:
//
//	/login       exactly this
//	/auth/*      * is any run of characters without a slash, ? is one
//	/static/**   ** is any run of characters, slashes included
//	~^/v[0-9]+/  what follows ~ is a regular expression (RE2), searched for
//	\*           a backslash takes the meaning from the character after it
//
// An empty pattern is refused: ** is any value, ~^$ the empty one.
func CompilePattern(text string) (*Pattern, error) {
	switch {
	case text == "":
		return nil, errors.New(`the pattern is empty: write "**" for any value, "~^$" for an empty one`)
	case len(text) > maxPattern:
		return nil, fmt.Errorf("the pattern has %d characters, more than %d", len(text), maxPattern)
	case text[0] == '~':
		re, err := regexp.Compile(text[1:])
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", text, err)
		}
		return &Pattern{text: text, re: re}, nil
	}
	tokens, err := compileGlob(text)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", text, err)
	}
	if len(tokens) == 1 && tokens[0].kind == literal {
		return &Pattern{text: text, exact: tokens[0].text}, nil
	}
	return &Pattern{text: text, glob: tokens}, nil
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// Match reports whether the text matches. It allocates nothing.
func (p *Pattern) Match(text string) bool {
	switch {
	case p.re != nil:
		return p.re.MatchString(text)
	case p.glob != nil:
		return matchGlob(p.glob, text)
	}
	return text == p.exact
}

// MatchValue reports whether the text of an attribute's value matches: a string
// itself, a number in decimal notation, true or false. Of a slice, one element
// has to. Bytes, maps and mixed slices have no text and never match.
//
// It allocates nothing, except for slices, which the API only hands out as
// copies.
func (p *Pattern) MatchValue(v attribute.Value) bool {
	switch v.Type() {
	case attribute.STRING:
		return p.Match(v.AsString())
	case attribute.BOOL:
		return p.Match(strconv.FormatBool(v.AsBool()))
	case attribute.INT64:
		return p.matchInt(v.AsInt64())
	case attribute.FLOAT64:
		return p.matchFloat(v.AsFloat64())
	case attribute.STRINGSLICE:
		for _, s := range v.AsStringSlice() {
			if p.Match(s) {
				return true
			}
		}
	case attribute.INT64SLICE:
		for _, n := range v.AsInt64Slice() {
			if p.matchInt(n) {
				return true
			}
		}
	case attribute.FLOAT64SLICE:
		for _, f := range v.AsFloat64Slice() {
			if p.matchFloat(f) {
				return true
			}
		}
	case attribute.BOOLSLICE:
		for _, b := range v.AsBoolSlice() {
			if p.Match(strconv.FormatBool(b)) {
				return true
			}
		}
	}
	return false
}

// numbers holds room for the text of numbers. A regular expression takes what
// it reads to the heap, so that room on the stack would be allocated each time.
var numbers = sync.Pool{New: func() any { return new([32]byte) }}

func (p *Pattern) matchInt(n int64) bool {
	room := numbers.Get().(*[32]byte)
	defer numbers.Put(room)
	return p.matchBytes(strconv.AppendInt(room[:0], n, 10))
}

func (p *Pattern) matchFloat(f float64) bool {
	room := numbers.Get().(*[32]byte)
	defer numbers.Put(room)
	return p.matchBytes(strconv.AppendFloat(room[:0], f, 'g', -1, 64))
}

func (p *Pattern) matchBytes(text []byte) bool {
	switch {
	case p.re != nil:
		return p.re.Match(text)
	case p.glob != nil:
		return matchGlob(p.glob, string(text))
	}
	return string(text) == p.exact
}

// isLiteral reports whether the pattern is one exact text.
func (p *Pattern) isLiteral() bool { return p.re == nil && p.glob == nil }

var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`)

// Quote returns a pattern that matches exactly the text, which must not be
// empty.
func Quote(text string) string {
	if strings.HasPrefix(text, "~") {
		return `\` + escaper.Replace(text)
	}
	return escaper.Replace(text)
}
