package redact

const (
	phoneLeast = 8 // E.164 sets no lower bound; shorter ones are mostly not numbers of people
	phoneMost  = 15
)

// phone looks behind a + (or %2B) for an international number (ITU-T E.164),
// its digits together or in groups. Numbers written for one country, without
// the +, cannot be told from others.
func (p *pass) phone(i, width int) int {
	s, next := p.s, i+width
	if p.by.phone == nil || isAlnum(p.before(i)) || p.before(i) == '+' || next >= len(s) || s[next] < '1' || s[next] > '9' {
		return next
	}
	n, end := 0, next
	for at := next; at < len(s); {
		if isDigit(s[at]) {
			if n++; n > phoneMost {
				return next
			}
			at++
			end = at
			continue
		}
		gap := phoneGap(s, at)
		if gap == 0 {
			break
		}
		at += gap
	}
	if n < phoneLeast || isAlnum(p.after(end)) {
		return next
	}
	return p.found(i, end, p.by.phone)
}

// phoneGap returns the length of what parts two groups of digits at i: one or
// two of space, dash, dot, slash and brackets.
func phoneGap(s string, i int) int {
	n := 0
	for count := 0; count < 2 && i+n < len(s); count++ {
		length, _ := separator(s, i+n)
		if length == 0 && (s[i+n] == '(' || s[i+n] == ')' || s[i+n] == '/') {
			length = 1
		}
		if length == 0 || s[i+n] == '+' {
			break
		}
		n += length
	}
	if i+n >= len(s) || !isDigit(s[i+n]) {
		return 0
	}
	return n
}
