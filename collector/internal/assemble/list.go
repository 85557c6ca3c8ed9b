package assemble

// Every trace that waits is in several lists. Waiting times are the same for
// all traces, so a list in the order in which they began is a list in the order
// in which they end: no heap, no timer each.
const (
	byAge    = iota // from the first span: Options.MaxAge, and the oldest goes when there is no room
	byLast          // from the last span: Options.Expiry
	settling        // complete, waits for stragglers: Options.Settle
	meeting         // complete, may be joined: Options.SequenceWait
	lists
)

type link struct {
	prev, next *trace
	in         bool
}

type list struct {
	n           int // which
	first, last *trace
}

func (l *list) push(t *trace) {
	k := &t.links[l.n]
	k.in, k.prev, k.next = true, l.last, nil
	if l.last != nil {
		l.last.links[l.n].next = t
	} else {
		l.first = t
	}
	l.last = t
}

func (l *list) remove(t *trace) {
	k := &t.links[l.n]
	if !k.in {
		return
	}
	if k.prev != nil {
		k.prev.links[l.n].next = k.next
	} else {
		l.first = k.next
	}
	if k.next != nil {
		k.next.links[l.n].prev = k.prev
	} else {
		l.last = k.prev
	}
	*k = link{}
}

// renew makes t the last one.
func (l *list) renew(t *trace) {
	if l.last != t {
		l.remove(t)
		l.push(t)
	}
}
