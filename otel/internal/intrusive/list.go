// Package intrusive has a doubly linked list whose links lie in its elements, so
// that an element can be taken out where it stands, and nothing is allocated.
package intrusive

// Link is an element's place in one list.
type Link[T any] struct {
	prev, next *T
	in         bool
}

// List is a list of elements, oldest first. Its zero value is empty and becomes
// ready when Of is set. It is not safe for concurrent use.
type List[T any] struct {
	Oldest, Newest *T
	Len            int
	Of             func(*T) *Link[T] // the element's link for this list
}

// Push appends an element that is not in the list.
func (l *List[T]) Push(e *T) {
	*l.Of(e) = Link[T]{prev: l.Newest, in: true}
	if l.Newest == nil {
		l.Oldest = e
	} else {
		l.Of(l.Newest).next = e
	}
	l.Newest = e
	l.Len++
}

// Remove takes an element out, if it is in.
func (l *List[T]) Remove(e *T) {
	at := l.Of(e)
	if !at.in {
		return
	}
	if at.prev == nil {
		l.Oldest = at.next
	} else {
		l.Of(at.prev).next = at.next
	}
	if at.next == nil {
		l.Newest = at.prev
	} else {
		l.Of(at.next).prev = at.prev
	}
	*at = Link[T]{}
	l.Len--
}
