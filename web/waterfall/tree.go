package waterfall

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span"
)

// tree is the tree of flats, which are sorted by start.
type tree struct {
	*span.Tree
	flats []flat
	// Groups of several spans with one id, one of which is a server span.
	shared map[int32]bool
}

func newTree(flats []flat) *tree {
	nodes := make([]span.Node, len(flats))
	for i := range flats {
		nodes[i] = flats[i].Node
	}
	t := &tree{Tree: span.NewTree(nodes), flats: flats, shared: map[int32]bool{}}
	server := func(i int32) bool { return flats[i].span.Kind() == ptrace.SpanKindServer }
	for i, first := range t.Group {
		if int32(i) != first && (server(int32(i)) || server(first)) {
			t.shared[first] = true
		}
	}
	return t
}
