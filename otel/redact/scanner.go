package redact

import (
	"strings"
)

// scanner holds the rules that apply to the texts of some keys. Keys with the
// same rules share one.
type scanner struct {
	starts   [256]bool // bytes at which a detector or a name may have something to say
	by       detectorRules
	names    *nameRules // nil: none
	patterns []*rule
	hash     *hasher // nil: no rule hashes
	unstable *rule   // counts texts that were given up
}

// detectorRules are the rules in force, by detector; nil where there is none.
type detectorRules struct {
	userinfo, email, card, jwt, bearer, apiKey, privateKey, iban, phone, query, ip, ssn, entropy *rule
}

func (d *detectorRules) of(name Detector) **rule {
	switch name {
	case Userinfo:
		return &d.userinfo
	case Email:
		return &d.email
	case Card:
		return &d.card
	case JWT:
		return &d.jwt
	case Bearer:
		return &d.bearer
	case APIKey:
		return &d.apiKey
	case PrivateKey:
		return &d.privateKey
	case IBAN:
		return &d.iban
	case Phone:
		return &d.phone
	case Query:
		return &d.query
	case IP:
		return &d.ip
	case SSN:
		return &d.ssn
	}
	return &d.entropy
}

// prepare fills starts. All that a clean text costs is one look into this
// table for each byte, and a closer look at the few that are in it.
func (sc *scanner) prepare() {
	mark := func(on bool, bytes string) {
		for i := range len(bytes) {
			sc.starts[bytes[i]] = sc.starts[bytes[i]] || on
		}
	}
	by := &sc.by
	mark(by.email != nil, "@%")
	mark(by.userinfo != nil, ":%")
	mark(by.card != nil || by.iban != nil || by.ssn != nil || by.ip != nil, "0123456789")
	mark(by.ip != nil, ":%")
	mark(by.jwt != nil, "J")
	mark(by.bearer != nil, "bB")
	mark(by.apiKey != nil, "_-A")
	mark(by.privateKey != nil, "-")
	mark(by.phone != nil, "+%")
	mark(sc.names != nil, "=:%->")
}

// text returns s redacted: s itself if there is nothing to redact. The result
// is a fixed point; redacting it again changes nothing.
func (sc *scanner) text(s string) string {
	for range unsettled {
		next := sc.once(s)
		if next == s {
			return s
		}
		s = next
	}
	sc.unstable.count.Add(1)
	return ""
}

func (sc *scanner) once(s string) string {
	for _, p := range sc.patterns {
		s = sc.pattern(p, s)
	}
	if sc.by.query != nil {
		s = sc.query(s)
	}
	s = sc.scan(s)
	if sc.by.entropy != nil {
		s = sc.entropy(s)
	}
	return s
}

const escapedSlashes = "%3A%2F%2F"

// match is a part of a text that a rule replaces.
type match struct {
	start, end int
	rule       *rule
}

// pass is one walk over a text.
type pass struct {
	*scanner
	s       string
	done    int // end of the last match: what is before belongs to it
	userEnd int // end of the last URL's user and password: @ before it is no e-mail address
	matches []match
}

func (sc *scanner) scan(s string) string {
	i := 0
	for i < len(s) && !sc.starts[s[i]] {
		i++
	}
	if i == len(s) {
		return s
	}
	return sc.scanFrom(s, i)
}

func (sc *scanner) scanFrom(s string, i int) string {
	p := pass{scanner: sc, s: s}
	for i < len(s) {
		if !sc.starts[s[i]] {
			i++
			continue
		}
		i = p.at(i)
	}
	if len(p.matches) == 0 {
		return s
	}
	return sc.rewrite(s, p.matches)
}

// at looks closer at byte i, and returns where to go on: behind it, a match, or
// what it has looked at in vain. Whatever it calls looks at a bounded number of
// bytes, or at bytes that no other call will look at, so that the walk is linear.
func (p *pass) at(i int) int {
	switch c := p.s[i]; c {
	case '@':
		return p.email(i, 1)
	case '%':
		return p.percent(i)
	case '=':
		return p.named(i, 1)
	case ':':
		return p.colon(i)
	case 'J':
		return p.jwt(i)
	case 'b', 'B':
		return p.credentials(i)
	case '_', 'A':
		return p.prefixed(i)
	case '-':
		if p.by.privateKey != nil && strings.HasPrefix(p.s[i:], pemBegin) {
			return p.pem(i)
		}
		if p.names != nil && strings.HasPrefix(p.s[i:], "--") {
			return p.flag(i)
		}
		return p.prefixed(i)
	case '>':
		return p.element(i)
	case '+':
		return p.phone(i, 1)
	default:
		return p.digits(i)
	}
}

func (p *pass) percent(i int) int {
	if i+3 > len(p.s) {
		return i + 1
	}
	switch p.s[i+1 : i+3] {
	case "40":
		return p.email(i, 3)
	case "3D", "3d":
		return p.named(i, 3)
	case "3A", "3a":
		if p.by.userinfo != nil && len(p.s)-i >= len(escapedSlashes) && strings.EqualFold(p.s[i:i+len(escapedSlashes)], escapedSlashes) {
			return p.userinfo(i + len(escapedSlashes))
		}
		if next := p.named(i, 3); next > i+3 || p.by.ip == nil {
			return next
		}
		return p.ipv6(i, 3)
	case "2B", "2b":
		return p.phone(i, 3)
	}
	return i + 1
}

func (p *pass) colon(i int) int {
	if strings.HasPrefix(p.s[i:], "://") {
		if p.by.userinfo != nil {
			return p.userinfo(i + 3)
		}
		return i + 1
	}
	if next := p.named(i, 1); next > i+1 {
		return next
	}
	if p.by.ip != nil {
		return p.ipv6(i, 1)
	}
	return i + 1
}

// found notes a match and returns its end.
func (p *pass) found(start, end int, r *rule) int {
	p.matches = append(p.matches, match{start, end, r})
	p.done = end
	return end
}

func (p *pass) before(i int) byte {
	if i <= 0 {
		return ' '
	}
	return p.s[i-1]
}

func (p *pass) after(i int) byte {
	if i >= len(p.s) {
		return ' '
	}
	return p.s[i]
}

// rewrite replaces the matches, which lie in order and apart. Tokens of this
// configuration stay as they are.
func (sc *scanner) rewrite(s string, ms []match) string {
	var out []byte
	var tokens []match
	if sc.hash != nil {
		tokens = sc.tokens(s)
	}
	from, changed := 0, false
	for _, m := range ms {
		if within(tokens, m) {
			continue
		}
		if out == nil {
			out = make([]byte, 0, len(s)+32)
		}
		out = append(out, s[from:m.start]...)
		mark := len(out)
		out = m.rule.appendReplacement(out, s[m.start:m.end])
		from = m.end
		if string(out[mark:]) != s[m.start:m.end] {
			m.rule.count.Add(1)
			changed = true
		}
	}
	if !changed {
		return s
	}
	return string(append(out, s[from:]...))
}

func (sc *scanner) tokens(s string) (out []match) {
	for i := 0; ; {
		at := strings.Index(s[i:], sc.hash.prefix)
		if at < 0 {
			return out
		}
		i += at
		if n := sc.hash.token(s[i:]); n > 0 {
			out = append(out, match{start: i, end: i + n})
			i += n
		} else {
			i += len(sc.hash.prefix)
		}
	}
}

func within(tokens []match, m match) bool {
	for _, t := range tokens {
		if t.start <= m.start && m.end <= t.end {
			return true
		}
	}
	return false
}

func (sc *scanner) pattern(r *rule, s string) string {
	if r.literal != "" && !strings.Contains(s, r.literal) || !r.re.MatchString(s) {
		return s
	}
	var ms []match
	for _, at := range r.re.FindAllStringSubmatchIndex(s, -1) {
		if start, end := at[2*r.group], at[2*r.group+1]; start < end {
			ms = append(ms, match{start, end, r})
		}
	}
	return sc.rewrite(s, ms)
}
