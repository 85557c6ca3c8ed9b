package rule

import (
	"errors"
	"fmt"
)

// Entry is a rule in a list, with the value that the list returns for it.
type Entry[T any] struct {
	Rule  *Rule
	Value T
}

// List is an ordered list of rules: the first that matches decides. The zero
// value is empty and matches nothing. It is immutable after it was built and
// may be shared.
type List[T any] struct {
	entries        []Entry[T]
	usesAttributes bool
}

// NewList returns the list of the entries, in order. It copies them.
func NewList[T any](entries ...Entry[T]) List[T] {
	l := List[T]{entries: append([]Entry[T](nil), entries...)}
	for _, e := range entries {
		l.usesAttributes = l.usesAttributes || e.Rule.UsesAttributes()
	}
	return l
}

// CompileAll compiles specs. The error names every wrong rule by its position,
// counted from 1, and its text.
func CompileAll(specs ...Spec) ([]*Rule, error) {
	rules := make([]*Rule, len(specs))
	var errs []error
	for i, s := range specs {
		r, err := Compile(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %d %s: %w", i+1, s, err))
		}
		rules[i] = r
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return rules, nil
}

// Index returns the position of the first rule that matches, from 0, or -1. It
// allocates nothing.
func (l *List[T]) Index(s Span) int {
	for i := range l.entries {
		if l.entries[i].Rule.Matches(s) {
			return i
		}
	}
	return -1
}

// Match returns the value of the first rule that matches. ok is false if none
// does.
func (l *List[T]) Match(s Span) (value T, ok bool) {
	if i := l.Index(s); i >= 0 {
		return l.entries[i].Value, true
	}
	return value, false
}

// Len returns the number of rules.
func (l *List[T]) Len() int { return len(l.entries) }

// At returns the entry at position i, from 0 to Len()-1.
func (l *List[T]) At(i int) Entry[T] { return l.entries[i] }

// UsesAttributes reports whether a rule has a condition on attributes. Without
// any, the start of a span may leave its attributes away.
func (l *List[T]) UsesAttributes() bool { return l.usesAttributes }
