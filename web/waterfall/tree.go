package waterfall

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// tree is the parents and children of spans, as indices into flats (sorted by start).
//
// A parent is named by id, and several spans may have this id: the two sides of a call
// (Zipkin's shared spans), or copies. The children of an id are shown below the first of
// these spans, and reduce the self time of each.
type tree struct {
	flats []flat
	group []int32 // of each span: the first span with its id
	// Groups of several spans, one of which is a server span.
	shared map[int32]bool
	// The spans below an id: children[from[g]:from[g+1]], by start.
	from     []int32
	children []int32
	parent   []int32 // of each span: the group that its parent id names, -1: none
	order    []int32 // depth first
	depth    []int32
	placed   []int32 // of each span: below which it was put, -1: at the top
}

func newTree(flats []flat) *tree {
	n := len(flats)
	ids := make(map[pcommon.SpanID]int32, n)
	t := &tree{flats: flats, group: make([]int32, n), parent: make([]int32, n),
		from: make([]int32, n+1), depth: make([]int32, n), placed: make([]int32, n)}
	for i := range flats {
		first, ok := ids[flats[i].id]
		if !ok {
			first = int32(i)
			ids[flats[i].id] = first
		}
		t.group[i] = first
		if ok {
			t.share(first, int32(i))
		}
	}
	for i := range flats {
		t.parent[i], t.placed[i] = -1, -1
		if p := flats[i].parent; !p.IsEmpty() && p != flats[i].id {
			if g, ok := ids[p]; ok {
				t.parent[i] = g
				t.from[g+1]++
			}
		}
	}
	for g := range n {
		t.from[g+1] += t.from[g]
	}
	t.children = make([]int32, t.from[n])
	next := append([]int32(nil), t.from...)
	for i, g := range t.parent {
		if g >= 0 {
			t.children[next[g]] = int32(i)
			next[g]++
		}
	}
	t.walk()
	return t
}

// share notes that two spans have one id.
func (t *tree) share(a, b int32) {
	for _, i := range []int32{a, b} {
		if t.flats[i].span.Kind() == ptrace.SpanKindServer {
			if t.shared == nil {
				t.shared = map[int32]bool{}
			}
			t.shared[a] = true
		}
	}
}

// below is the spans that name this span's id as their parent, by start.
func (t *tree) below(i int32) []int32 {
	g := t.group[i]
	return t.children[t.from[g]:t.from[g+1]]
}

// walk puts every span into the order once: from the tops, then from what
// hangs below no top, spans that are each other's ancestors.
func (t *tree) walk() {
	t.order = make([]int32, 0, len(t.flats))
	seen := make([]bool, len(t.flats))
	var stack []int32 // no recursion: a chain may be 100,000 spans deep
	visit := func(top int32) {
		seen[top] = true
		stack = append(stack[:0], top)
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			t.order = append(t.order, i)
			below := t.below(i)
			mark := len(stack)
			for _, c := range below {
				if !seen[c] {
					seen[c] = true
					t.depth[c] = t.depth[i] + 1
					t.placed[c] = i
					stack = append(stack, c)
				}
			}
			// The first by start is taken from the stack first.
			for a, b := mark, len(stack)-1; a < b; a, b = a+1, b-1 {
				stack[a], stack[b] = stack[b], stack[a]
			}
		}
	}
	for i := range t.flats {
		if t.parent[i] < 0 {
			visit(int32(i))
		}
	}
	for i := range t.flats {
		if !seen[i] {
			visit(int32(i))
		}
	}
}

// self is the duration less the union of the children's times within it.
func (t *tree) self(i int32) uint64 {
	f := &t.flats[i]
	var covered uint64
	at := f.start
	for _, c := range t.below(i) {
		if c == i {
			continue
		}
		from, to := max(t.flats[c].start, at), min(t.flats[c].end, f.end)
		if to > from {
			covered += to - from
			at = to
		}
	}
	return f.end - f.start - covered
}
