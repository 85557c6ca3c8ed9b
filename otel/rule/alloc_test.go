//go:build !race

package rule

import "testing"

func TestMatchingAllocatesNothing(t *testing.T) {
	l, span := benchList(t)
	if l.Index(span) != l.Len()-1 {
		t.Fatalf("rule %d matches, not the last", l.Index(span))
	}
	if n := testing.AllocsPerRun(100, func() { l.Index(span) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
