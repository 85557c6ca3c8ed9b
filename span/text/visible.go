package text

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns a text of one line that shows what it consists of. Characters that are not seen, that change the
// order or the place of others, or that a terminal obeys are written as escapes: \u001b, \n, \u202e. These are controls
// (C0, C1), formats (bidirectional controls, zero width, tags), separators of lines, fillers, and what is not UTF-8.
// In the page, dom.js does the same.
func Visible(s string) string {
	for i, r := range s {
		if hidden(r) || r == utf8.RuneError {
			return escape(s, i, "")
		}
	}
	return s
}

// Lines is Visible for a text of several lines: their ends and tabs stay.
func Lines(s string) string {
	for i, r := range s {
		if hidden(r) || r == utf8.RuneError {
			return escape(s, i, lines)
		}
	}
	return s
}

// lines are the controls that a text of several lines has.
const lines = "\n\t"

// hidden reports whether a character is not seen as itself.
func hidden(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Other_Default_Ignorable_Code_Point)
}

// escape is Visible for a text whose first i bytes need no escape; some controls stay.
func escape(s string, i int, stay string) string {
	out := append(make([]byte, 0, 2*len(s)), s[:i]...)
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || hidden(r) && !strings.ContainsRune(stay, r) {
			out = appendEscape(out, r, s[i])
		} else {
			out = append(out, s[i:i+n]...)
		}
		i += n
	}
	return string(out)
}

// appendEscape writes a character as JSON does, so that a text of JSON stays one and means the same; a byte that is
// not UTF-8 as \xff.
func appendEscape(out []byte, r rune, b byte) []byte {
	switch {
	case r == '\n':
		return append(out, `\n`...)
	case r == '\t':
		return append(out, `\t`...)
	case r == '\r':
		return append(out, `\r`...)
	case r == utf8.RuneError:
		return fmt.Appendf(out, `\x%02x`, b)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// Writer makes visible what is written to another writer, such as a terminal, but for the ends of lines and tabs. A
// character may be split between two calls; the first bytes of one that is never completed are not written.
type Writer struct {
	w    io.Writer
	rest []byte
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Unwrap returns the other writer.
func (w *Writer) Unwrap() io.Writer { return w.w }

// Write writes b. It returns len(b), unless the other writer fails.
func (w *Writer) Write(b []byte) (int, error) {
	in := append(w.rest, b...)
	out := make([]byte, 0, len(in))
	for len(in) > 0 && utf8.FullRune(in) {
		r, n := utf8.DecodeRune(in)
		if r == utf8.RuneError && n == 1 || hidden(r) && !strings.ContainsRune(lines, r) {
			out = appendEscape(out, r, in[0])
		} else {
			out = append(out, in[:n]...)
		}
		in = in[n:]
	}
	w.rest = append(w.rest[:0], in...)
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
