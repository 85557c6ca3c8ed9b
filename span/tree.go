package span

// Node is what a Tree knows of a span.
type Node struct {
	ID, Parent ID
	Start, End uint64 // End >= Start
	Kind       Kind
	Resource   int // spans of one resource have the same number
}

// Tree is the parents and children of the spans of a trace, as indices into nodes that
// are sorted by start. It accepts any: with missing parents, and that are each other's
// ancestors.
//
// Several spans may have one id. A client's and a server's are the two sides of a call, as
// Zipkin's instrumentation shares ids (https://github.com/openzipkin/b3-propagation): the
// server's span is below the client's, and what names the id as its parent is below the
// server's, unless it is of the client's resource. Others are copies: what names them is
// shown below the first, and reduces the self time of each.
type Tree struct {
	nodes []Node
	group []int32 // of each span: the first of those with its id, or of its side of a call
	// The spans below a group: children[from[g]:from[g+1]], by start.
	from     []int32
	children []int32
	Parent   []int32 // of each span: the group that its parent id names, -1: none
	Order    []int32 // depth first
	Depth    []int32
	Above    []int32 // of each span: below which it is shown, -1: at the top
}

// sides are the first spans with one id: of all, of clients and of servers; -1: none.
type sides struct{ first, client, server int32 }

// split reports that they are the two sides of a call.
func (s sides) split() bool { return s.client >= 0 && s.server >= 0 }

// NewTree makes a tree of nodes, sorted by start.
func NewTree(nodes []Node) *Tree {
	n := len(nodes)
	ids := make(map[ID]sides, n)
	t := &Tree{nodes: nodes, group: make([]int32, n), Parent: make([]int32, n),
		from: make([]int32, n+1), Depth: make([]int32, n), Above: make([]int32, n)}
	for i := range nodes {
		of, ok := ids[nodes[i].ID]
		if !ok {
			of = sides{int32(i), -1, -1}
		}
		switch kind := nodes[i].Kind; {
		case kind == Client && of.client < 0:
			of.client = int32(i)
		case kind == Server && of.server < 0:
			of.server = int32(i)
		case ok:
			continue
		}
		ids[nodes[i].ID] = of
	}
	for i := range nodes {
		node := &nodes[i]
		of := ids[node.ID]
		t.group[i], t.Parent[i], t.Above[i] = of.first, t.above(node, ids), -1
		if of.split() {
			t.group[i] = of.client
			if node.Kind == Server {
				t.group[i], t.Parent[i] = of.server, of.client
			}
		}
		if g := t.Parent[i]; g >= 0 {
			t.from[g+1]++
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

// above is the group that a span names as its parent, -1: none.
func (t *Tree) above(node *Node, ids map[ID]sides) int32 {
	if node.Parent.IsZero() || node.Parent == node.ID {
		return -1
	}
	of, ok := ids[node.Parent]
	switch {
	case !ok:
		return -1
	case !of.split():
		return of.first
	case node.Resource == t.nodes[of.client].Resource && node.Resource != t.nodes[of.server].Resource:
		return of.client
	}
	return of.server
}

// Children is the spans below this span, by start. Copies have the same.
func (t *Tree) Children(i int32) []int32 {
	g := t.group[i]
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
