package lean

// traceList is a list of local traces, oldest first. A trace can be in two: of the open ones, and
// of those that hold spans.
type traceList struct {
	oldest, newest *localTrace
	len            int
	link           func(*localTrace) *traceLink
}

type traceLink struct {
	prev, next *localTrace
	in         bool
}

func openLink(t *localTrace) *traceLink    { return &t.open }
func holdingLink(t *localTrace) *traceLink { return &t.holding }

func (l *traceList) push(t *localTrace) {
	at := l.link(t)
	*at = traceLink{prev: l.newest, in: true}
	if l.newest == nil {
		l.oldest = t
	} else {
		l.link(l.newest).next = t
	}
	l.newest = t
	l.len++
}

// remove takes a trace out, if it is in.
func (l *traceList) remove(t *localTrace) {
	at := l.link(t)
	if !at.in {
		return
	}
	if at.prev == nil {
		l.oldest = at.next
	} else {
		l.link(at.prev).next = at.next
	}
	if at.next == nil {
		l.newest = at.prev
	} else {
		l.link(at.next).prev = at.prev
	}
	*at = traceLink{}
	l.len--
}
