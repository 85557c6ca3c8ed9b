package span

// Node is what a Tree knows of a span.
type Node struct {
	ID, Parent ID
	Start, End uint64 // End >= Start
}

// Tree is the parents and children of the spans of a trace, as indices into nodes that
// are sorted by start. It accepts any: with missing parents, and that are each other's
// ancestors.
//
// A parent is named by id, and several spans may have this id: the two sides of a call
// (Zipkin's shared spans), or copies. The children of an id are shown below the first of
// these spans, and reduce the self time of each.
type Tree struct {
	nodes []Node
	Group []int32 // of each span: the first span with its id
	// The spans below an id: children[from[g]:from[g+1]], by start.
	from     []int32
	children []int32
	Parent   []int32 // of each span: the group that its parent id names, -1: none
	Order    []int32 // depth first
	Depth    []int32
	Above    []int32 // of each span: below which it is shown, -1: at the top
}

// NewTree makes a tree of nodes, sorted by start.
func NewTree(nodes []Node) *Tree {
	n := len(nodes)
	ids := make(map[ID]int32, n)
	t := &Tree{nodes: nodes, Group: make([]int32, n), Parent: make([]int32, n),
		from: make([]int32, n+1), Depth: make([]int32, n), Above: make([]int32, n)}
	for i := range nodes {
		first, ok := ids[nodes[i].ID]
		if !ok {
			first = int32(i)
			ids[nodes[i].ID] = first
		}
		t.Group[i] = first
	}
	for i := range nodes {
		t.Parent[i], t.Above[i] = -1, -1
		if p := nodes[i].Parent; !p.IsZero() && p != nodes[i].ID {
			if g, ok := ids[p]; ok {
				t.Parent[i] = g
				t.from[g+1]++
			}
		}
	}
	for g := range n {
		t.from[g+1] += t.from[g]
	}
	t.children = make([]int32, t.from[n])
	next := append([]int32(nil), t.from...)
	for i, g := range t.Parent {
		if g >= 0 {
			t.children[next[g]] = int32(i)
			next[g]++
		}
	}
	t.walk()
	return t
}

// Children is the spans that name this span's id as their parent, by start.
func (t *Tree) Children(i int32) []int32 {
	g := t.Group[i]
	return t.children[t.from[g]:t.from[g+1]]
}

// walk puts every span into the order once: from the tops, then from what
// hangs below no top, spans that are each other's ancestors.
func (t *Tree) walk() {
	t.Order = make([]int32, 0, len(t.nodes))
	seen := make([]bool, len(t.nodes))
	var stack []int32 // no recursion: a chain may be 100,000 spans deep
	visit := func(top int32) {
		seen[top] = true
		stack = append(stack[:0], top)
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			t.Order = append(t.Order, i)
			below := t.Children(i)
			mark := len(stack)
			for _, c := range below {
				if !seen[c] {
					seen[c] = true
					t.Depth[c] = t.Depth[i] + 1
					t.Above[c] = i
					stack = append(stack, c)
				}
			}
			// The first by start is taken from the stack first.
			for a, b := mark, len(stack)-1; a < b; a, b = a+1, b-1 {
				stack[a], stack[b] = stack[b], stack[a]
			}
		}
	}
	for i := range t.nodes {
		if t.Parent[i] < 0 {
			visit(int32(i))
		}
	}
	for i := range t.nodes {
		if !seen[i] {
			visit(int32(i))
		}
	}
}

// Self is the duration less the union of the children's times within it.
func (t *Tree) Self(i int32) uint64 {
	n := &t.nodes[i]
	var covered uint64
	at := n.Start
	for _, c := range t.Children(i) {
		from, to := max(t.nodes[c].Start, at), min(t.nodes[c].End, n.End)
		if to > from {
			covered += to - from
			at = to
		}
	}
	return n.End - n.Start - covered
}
