package waterfall

import "github.com/tare-trace/tare/span"

// tree is the tree of flats, which are sorted by start.
type tree struct {
	*span.Tree
	flats []flat
}

func newTree(flats []flat) *tree {
	nodes := make([]span.Node, len(flats))
	for i := range flats {
		nodes[i] = flats[i].Node
	}
	return &tree{Tree: span.NewTree(nodes), flats: flats}
}
