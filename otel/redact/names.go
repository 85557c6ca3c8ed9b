package redact

import "strings"

// nameBytes is the longest name that is looked up: a longer run of letters is
// no name of a parameter.
const nameBytes = 64

// nameRules finds the rule for a name inside a text.
type nameRules struct {
	exact map[string]*rule // normalised
	globs []nameGlob
	known cache[*rule]
}

type nameGlob struct {
	glob
	rule *rule
}

// newNameRules returns nil if no rule has Names.
func newNameRules(rules []*rule) *nameRules {
	n := &nameRules{exact: map[string]*rule{}}
	for _, r := range rules {
		for i, pattern := range r.Names {
			if strings.Contains(pattern, "*") {
				n.globs = append(n.globs, nameGlob{r.names[i], r})
			} else if name := normalise(pattern); n.exact[name] == nil {
				n.exact[name] = r
			}
		}
	}
	if len(n.exact)+len(n.globs) == 0 {
		return nil
	}
	return n
}

func (n *nameRules) find(name string) *rule {
	if r, ok := n.known.get(name); ok {
		return r
	}
	r := n.work(name)
	n.known.put(name, r)
	return r
}

func (n *nameRules) work(name string) *rule {
	full := normalise(name)
	if r := n.exact[full]; r != nil {
		return r
	}
	if i := strings.LastIndexAny(full, ".["); i >= 0 {
		if r := n.exact[strings.TrimSuffix(full[i+1:], "]")]; r != nil {
			return r
		}
	}
	for _, g := range n.globs {
		if g.matches(name) {
			return g.rule
		}
	}
	return nil
}

// named looks at a delimiter at i, = or : or their escapes of three bytes, for
// a name before it that has a rule, and takes the value behind it.
func (p *pass) named(i, width int) int {
	next := i + width
	if p.names == nil {
		return next
	}
	begin, end, quote := p.nameBefore(i)
	if begin < 0 {
		return next
	}
	r := p.names.find(p.s[begin:end])
	if r == nil {
		return next
	}
	v := p.valueAfter(i, width, p.s[begin:end], quote)
	if v.start >= v.end {
		return next
	}
	if r.Do == Remove {
		if quote != 0 && p.before(begin) == quote {
			begin--
		}
		return p.found(max(begin, p.done), v.close, r)
	}
	p.found(v.start, v.end, r)
	return v.close
}

// nameBefore returns where the name before the delimiter at i lies (begin -1:
// there is none), and the quote that stands before it, if any.
func (p *pass) nameBefore(i int) (begin, end int, quote byte) {
	s := p.s
	end = i
	for end > 0 && i-end < 2 && s[end-1] == ' ' {
		end--
	}
	if end > 0 && isQuote(s[end-1]) {
		end--
		if end > 0 && s[end-1] == '\\' {
			end--
		}
	} else if end > 2 && s[end-3] == '%' && s[end-2] == '2' && (s[end-1] == '2' || s[end-1] == '7') {
		end -= 3 // an escaped quote
	}
	begin = end
	letter := false
	for begin > 0 && isNameByte(s[begin-1]) {
		if begin--; end-begin > nameBytes {
			return -1, 0, 0
		}
		letter = letter || isLetter(s[begin])
	}
	if begin > 0 && s[begin-1] == '%' && begin+2 <= end && isHex(s[begin]) && isHex(s[begin+1]) {
		begin += 2
	}
	if begin > 0 && s[begin-1] == '\\' { // JSON's \u0026 and \n
		if c := s[begin]; c == 'u' && end-begin > 5 {
			begin += 5
		} else if c == 'n' || c == 'r' || c == 't' {
			begin++
		}
	}
	if !letter || end-begin < 2 {
		return -1, 0, 0
	}
	if q := p.before(begin); isQuote(q) {
		quote = q
	}
	return begin, end, quote
}

func isNameByte(c byte) bool {
	return isAlnum(c) || c == '_' || c == '-' || c == '.' || c == '[' || c == ']'
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
