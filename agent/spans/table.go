package spans

// table finds open spans by their ids, which are random already: they are hashed no more.
// A span is in the first free place from that of its id on.
type table struct {
	slots []slot // a power of two, at least twice as many as spans
	spans int
}

type slot struct {
	id   uint64
	open *open // nil: free
}

const tableSize = 64 // slots, at least

// find returns an open span, nil if there is none of that id.
func (t *table) find(id uint64) *open {
	mask := uint64(len(t.slots) - 1)
	for i := id; t.spans > 0; i++ {
		if s := &t.slots[i&mask]; s.id == id || s.open == nil {
			return s.open
		}
	}
	return nil
}

// add adds a span. One of the same id, which nothing makes but a fault, is another.
func (t *table) add(o *open) {
	if 2*t.spans >= len(t.slots) {
		t.resize(max(tableSize, 2*len(t.slots)))
	}
	t.spans++
	mask := uint64(len(t.slots) - 1)
	for i := o.id; ; i++ {
		if s := &t.slots[i&mask]; s.open == nil {
			*s = slot{o.id, o}
			return
		}
	}
}

// remove removes a span that is there, and moves up those that were displaced by it.
func (t *table) remove(o *open) {
	mask := uint64(len(t.slots) - 1)
	free := o.id & mask
	for t.slots[free].open != o {
		free = (free + 1) & mask
	}
	t.spans--
	for i := free; ; {
		i = (i + 1) & mask
		s := t.slots[i]
		if s.open == nil {
			break
		}
		if (i-s.id)&mask >= (i-free)&mask { // its own place is not behind the free one
			t.slots[free], free = s, i
		}
	}
	t.slots[free] = slot{}
}

// each calls f with every span. f may remove that span, and no other one.
func (t *table) each(f func(*open)) {
	for i := 0; i < len(t.slots); {
		o := t.slots[i].open
		if o != nil {
			f(o)
		}
		if o == nil || t.slots[i].open == o {
			i++
		}
	}
}

// shrink gives memory back that many open spans once took.
func (t *table) shrink() {
	if len(t.slots) > tableSize && 16*t.spans < len(t.slots) {
		t.resize(len(t.slots) / 4)
	}
}

func (t *table) resize(n int) {
	old := t.slots
	t.slots, t.spans = make([]slot, n), 0
	for _, s := range old {
		if s.open != nil {
			t.add(s.open)
		}
	}
}
