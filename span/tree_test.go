package span

import (
	"fmt"
	"testing"
)

func TestTree(t *testing.T) {
	node := func(id, parent byte, start, end uint64) Node {
		return Node{ID: ID{7: id}, Parent: ID{7: parent}, Start: start, End: end}
	}
	side := func(id, parent byte, start, end uint64, kind Kind, resource int) Node {
		n := node(id, parent, start, end)
		n.Kind, n.Resource = kind, resource
		return n
	}
	for _, tt := range []struct {
		about string
		nodes []Node
		order []int32
		depth []int32 // of each node, as self
		self  []uint64
	}{
		{"none", nil, nil, nil, nil},
		{
			"children that overlap, that end late and that begin after their parent's end",
			[]Node{node(1, 0, 0, 100), node(2, 1, 10, 40), node(3, 1, 30, 50), node(4, 2, 35, 60), node(5, 1, 120, 130)},
			[]int32{0, 1, 3, 2, 4}, []int32{0, 1, 1, 2, 1}, []uint64{60, 25, 20, 25, 10},
		},
		{
			"a missing parent, and a span that names itself",
			[]Node{node(1, 9, 0, 10), node(2, 2, 5, 10)},
			[]int32{0, 1}, []int32{0, 0}, []uint64{10, 5},
		},
		{
			"each other's ancestors",
			[]Node{node(1, 2, 0, 10), node(2, 1, 2, 6)},
			[]int32{0, 1}, []int32{0, 1}, []uint64{6, 0},
		},
		{
			"two spans of one id: what is below is shown once, and covers both",
			[]Node{node(1, 0, 0, 10), node(2, 1, 1, 9), node(2, 1, 2, 8), node(3, 2, 3, 4)},
			[]int32{0, 1, 3, 2}, []int32{0, 1, 1, 2}, []uint64{2, 7, 5, 1},
		},
		{
			"two sides of a call with one id: what is below is the server's, but for the client's own",
			[]Node{
				node(1, 0, 0, 10), side(2, 1, 1, 9, Client, 1), side(4, 2, 1, 2, Internal, 1), side(2, 1, 2, 8, Server, 2),
				side(3, 2, 3, 5, Internal, 2), side(5, 2, 6, 7, Internal, 3),
			},
			[]int32{0, 1, 2, 3, 4, 5}, []int32{0, 1, 2, 2, 3, 3}, []uint64{2, 1, 1, 3, 2, 1},
		},
		{
			"by wrong clocks the server's side begins first, and its parent is missing",
			[]Node{side(2, 9, 0, 5, Server, 2), side(2, 9, 1, 9, Client, 1), side(3, 2, 2, 3, Client, 2)},
			[]int32{1, 0, 2}, []int32{1, 0, 2}, []uint64{4, 4, 1},
		},
		{
			"a copy of each side",
			[]Node{side(2, 0, 0, 9, Client, 1), side(2, 0, 0, 9, Client, 1), side(2, 0, 1, 8, Server, 2), side(2, 0, 1, 8, Server, 2), side(3, 2, 2, 3, Client, 2)},
			[]int32{0, 2, 4, 3, 1}, []int32{0, 0, 1, 1, 2}, []uint64{2, 2, 6, 6, 1},
		},
	} {
		tree := NewTree(tt.nodes)
		var self []uint64
		for i := range tt.nodes {
			self = append(self, tree.Self(int32(i)))
		}
		if got, want := fmt.Sprint(tree.Order, tree.Depth, self), fmt.Sprint(tt.order, tt.depth, tt.self); got != want {
			t.Errorf("%s: order, depth, self time: %s, want %s", tt.about, got, want)
		}
	}
}
