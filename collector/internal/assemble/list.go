package assemble

// Each waiting trace is in several lists. A waiting time is the same for all traces,
// so that the order in which they began to wait is the order in which they are due;
// neither a heap nor a timer for each trace is needed.
const (
	byAge    = iota // since the first span: Options.MaxAge; the oldest is evicted if memory is full
	byLast          // since the last span: Options.Expiry
	settling        // complete, but spans may still arrive: Options.Settle
	joinable        // complete, but another half may exist: Options.SequenceWait
	lists
)

type link struct {
	prev, next *trace
	in         bool
}

type list struct {
	n           int // byAge … joinable
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

// renew moves t to the end of the list.
func (l *list) renew(t *trace) {
	if l.last != t {
		l.remove(t)
		l.push(t)
	}
}
