package redact

import "strings"

// extent is where a named value lies: start to end is replaced; close is behind
// the quote or bracket that ends it.
type extent struct{ start, end, close int }

// valueAfter finds the value behind the delimiter at i. When in doubt it takes
// more: what is a secret cannot be told by its look.
func (p *pass) valueAfter(i, width int, name string, quote byte) extent {
	s := p.s
	colon := width == 1 && s[i] == ':'
	v := i + width
	if width == 1 && v < len(s) && (s[v] == '=' || s[v] == '>') { // ==, :=, => of Ruby and PHP
		v++
	}
	at := v
	for at < len(s) && at-v < 4 && (s[at] == ' ' || s[at] == '\t') {
		at++
	}
	if colon || i > 0 && s[i-1] == ' ' || at < len(s) && isQuote(s[at]) {
		v = at
	}
	if v >= len(s) {
		return extent{}
	}
	switch c := s[v]; {
	case isQuote(c):
		return quoted(s, v)
	case c == '\\' && v+1 < len(s) && isQuote(s[v+1]):
		return escapedQuote(s, v)
	case c == '[' || c == '{':
		return bracketed(s, v)
	case width == 3:
		return escapedValue(s, v)
	case isHeader(name):
		return line(s, v, quote, !colon)
	}
	return bare(s, v)
}

// isHeader reports whether the value of a header goes on to the end of the line.
func isHeader(name string) bool {
	switch normalise(name) {
	case "authorization", "proxyauthorization", "cookie", "setcookie":
		return true
	}
	return false
}

func quoted(s string, v int) extent {
	q := s[v]
	for i := v + 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case q:
			return extent{v + 1, i, i + 1}
		}
	}
	return extent{v + 1, len(s), len(s)} // cut off by a limit on lengths
}

// escapedQuote is for JSON inside JSON: \"value\".
func escapedQuote(s string, v int) extent {
	if n := strings.Index(s[v+2:], s[v:v+2]); n >= 0 {
		return extent{v + 2, v + 2 + n, v + 4 + n}
	}
	return extent{v + 2, len(s), len(s)}
}

func bracketed(s string, v int) extent {
	depth, q := 0, byte(0)
	for i := v; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case q != 0:
			if c == q {
				q = 0
			}
		case c == '"':
			q = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return extent{v + 1, i, i + 1}
			}
		}
	}
	return extent{v + 1, len(s), len(s)}
}

// escapedValue ends where an escaped delimiter does, too.
func escapedValue(s string, v int) extent {
	i := v
	for i < len(s) && !isSpace(s[i]) && s[i] != '&' && !isQuote(s[i]) {
		if s[i] == '%' && i+3 <= len(s) {
			switch strings.ToUpper(s[i+1 : i+3]) {
			case "26", "20", "3B", "23", "0A", "0D":
				return extent{v, i, i}
			case "22", "27":
				if i > v {
					return extent{v, i, i}
				}
				v = i + 3
				i += 2
			}
		}
		i++
	}
	return extent{v, i, i}
}

func line(s string, v int, quote byte, parameter bool) extent {
	i := v
	for i < len(s) && s[i] != '\n' && s[i] != '\r' && (quote == 0 || s[i] != quote) && (s[i] != '&' || !parameter) {
		if s[i] == '\\' && i+1 < len(s) && (s[i+1] == 'n' || s[i+1] == 'r') {
			break
		}
		i++
	}
	return extent{v, i, i}
}

func bare(s string, v int) extent {
	i := word(s, v)
	switch strings.ToLower(s[v:i]) {
	case "bearer", "basic", "digest", "negotiate", "token", "apikey": // Authorization's schemes
		if i+1 < len(s) && s[i] == ' ' {
			i = word(s, i+1)
		}
	}
	for i > v && strings.IndexByte(")]}.,;", s[i-1]) >= 0 {
		i--
	}
	return extent{v, i, i}
}

// word goes to white space, &, a quote, or a comma or semicolon behind which
// space or another name comes.
func word(s string, i int) int {
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case isSpace(c), c == '&', isQuote(c), c == '<':
			return i
		case c == '\\' && i+1 < len(s) && isQuote(s[i+1]), c == '\\' && strings.HasPrefix(s[i:], `\u0026`):
			return i
		case c == ',' || c == ';':
			if startsPair(s, i+1) {
				return i
			}
		}
	}
	return i
}

func startsPair(s string, i int) bool {
	if i >= len(s) || isSpace(s[i]) || isQuote(s[i]) {
		return true
	}
	for n := 0; i < len(s) && n < nameBytes; n++ {
		if !isNameByte(s[i]) {
			return n > 0 && (s[i] == '=' || s[i] == ':')
		}
		i++
	}
	return false
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// flag looks at -- for a flag whose value is the next word: --password x.
func (p *pass) flag(i int) int {
	s := p.s
	begin := i + 2
	if c := p.before(i); begin >= len(s) || !isSpace(c) && !isQuote(c) {
		return begin
	}
	end := begin
	for end < len(s) && isNameByte(s[end]) && end-begin <= nameBytes {
		end++
	}
	if end-begin > nameBytes || end-begin < 2 || end+1 >= len(s) || s[end] != ' ' || s[end+1] == '-' {
		return begin
	}
	r := p.names.find(s[begin:end])
	if r == nil {
		return end
	}
	v := bare(s, end+1)
	if c := s[end+1]; isQuote(c) {
		v = quoted(s, end+1)
	}
	if v.start >= v.end {
		return end
	}
	if r.Do == Remove {
		return p.found(i, v.close, r)
	}
	p.found(v.start, v.end, r)
	return v.close
}

// element looks at > for an XML element whose name has a rule: <p:password>x</p:password>.
func (p *pass) element(i int) int {
	s, next := p.s, i+1
	begin := i
	for begin > 0 && isNameByte(s[begin-1]) && i-begin <= nameBytes {
		begin--
	}
	c := p.before(begin)
	if p.names == nil || i-begin < 2 || i-begin > nameBytes || c != '<' && c != ':' || next >= len(s) {
		return next
	}
	r := p.names.find(s[begin:i])
	if r == nil {
		return next
	}
	end := strings.IndexByte(s[next:], '<')
	if end < 0 {
		end = len(s) - next
	}
	if end == 0 {
		return next
	}
	return p.found(next, next+end, r)
}
