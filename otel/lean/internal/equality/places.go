package equality

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// seed is the same for both runs of a program: their hashes are compared.
var seed = maphash.MakeSeed()

// deterministic is a writer whose bytes are equal if the messages are.
var deterministic = proto.MarshalOptions{Deterministic: true}

// A node is a span in the tree that parent ids make of the spans of a run.
type node struct {
	*Span
	parent   *node
	children []*node
	own      uint64 // hash of what the span holds, ids aside
	color    uint64 // hash of own and, as far as known, of all that it is connected with by ids
	ids      []*id  // that differ between runs: trace, span, parent, then those of the links; nil: none, or the same
	place    string
}

// An id connects the spans in which it occurs.
type id struct{ color, sum uint64 }

// nameIDs replaces every id in spans by the place in the tree of the span that has it: the names from the
// root down, with a number among siblings of one name. An id that same holds, because both runs have it
// (a remote parent), stays. An id of no exported span (a parent that was not sampled) is numbered.
//
// Siblings are ordered by all that they and the spans that share an id with them hold, so that equal
// programs get equal places whatever order their goroutines ran in. This is colour refinement, as for
// the isomorphism of graphs: a span's colour takes in those of its ids, an id's those of its spans, until
// that tells no more spans apart; then one of those that are still alike is marked, and so on.
func nameIDs(spans []*Span, same map[string]bool) {
	nodes := make([]*node, len(spans))
	byID := make(map[string]*node, len(spans))
	for i, s := range spans {
		nodes[i] = &node{Span: s, own: contents(s, same)}
		byID[string(s.GetSpanId())] = nodes[i]
	}
	var roots []*node
	for _, n := range nodes {
		if p := byID[string(n.GetParentSpanId())]; p != nil && p != n {
			n.parent, p.children = p, append(p.children, n)
		} else {
			roots = append(roots, n)
		}
	}
	paint(walk(roots)) // not needed, but refinement alone takes a round per level
	connect(nodes, same)
	for alike := refine(nodes); alike != nil; alike = refine(nodes) {
		alike.color = mix(alike.color, 1)
	}
	number(roots, "")
	for _, n := range walk(roots) {
		number(n.children, n.place+"/")
	}

	names := map[string]string{}
	name := func(kind string, id []byte, place string) []byte {
		key := string(id)
		if len(id) == 0 || same[key] {
			return id
		}
		if _, ok := names[key]; !ok {
			if place == "" {
				place = fmt.Sprintf("not exported %d", len(names))
			}
			names[key] = kind + place
		}
		return []byte(names[key])
	}
	ordered := walk(roots)
	for _, n := range ordered { // parents first: a trace is named after its first root
		n.TraceId = name("trace of ", n.TraceId, n.place)
		n.SpanId = name("", n.SpanId, n.place)
	}
	for _, n := range ordered {
		n.ParentSpanId = name("", n.ParentSpanId, "")
		for _, l := range n.GetLinks() {
			l.TraceId, l.SpanId = name("trace of ", l.TraceId, ""), name("", l.SpanId, "")
		}
	}
}

// contents hashes a span without the ids that differ between runs.
func contents(s *Span, same map[string]bool) uint64 {
	var restore []func()
	blank := func(id *[]byte) {
		if was := *id; !same[string(was)] {
			*id = nil
			restore = append(restore, func() { *id = was })
		}
	}
	blank(&s.TraceId)
	blank(&s.SpanId)
	blank(&s.ParentSpanId)
	for _, l := range s.GetLinks() {
		blank(&l.TraceId)
		blank(&l.SpanId)
	}
	h := maphash.Bytes(seed, s.bytes())
	for _, f := range restore {
		f()
	}
	return h
}

// bytes are equal for two spans if everything of them is.
func (s *Span) bytes() []byte {
	return appendMessage(slices.Clone(s.around), s.Span)
}

// bytes are equal for two surroundings if everything of them is, presence of empty messages included.
func (s Surroundings) bytes() []byte {
	out := fmt.Appendf(nil, "%t %t %q %q ", s.Resource != nil, s.Scope != nil, s.ResourceSchema, s.ScopeSchema)
	return appendMessage(appendMessage(out, s.Resource), s.Scope)
}

// appendMessage appends a message, preceded by its length.
func appendMessage(out []byte, m proto.Message) []byte {
	b, err := deterministic.Marshal(m)
	if err != nil { // what was decoded can be encoded
		panic(err)
	}
	return append(fmt.Appendf(out, "%d:", len(b)), b...)
}

// walk lists nodes so that parents come before their children.
func walk(roots []*node) []*node {
	out := slices.Clone(roots)
	for i := 0; i < len(out); i++ {
		out = append(out, out[i].children...)
	}
	return out
}

func paint(topDown []*node) {
	for _, n := range slices.Backward(topDown) {
		n.color = n.own
		below := make([]uint64, len(n.children))
		for i, c := range n.children {
			below[i] = c.color
		}
		slices.Sort(below)
		n.color = mix(n.color, below...)
	}
	for _, n := range topDown {
		if n.parent != nil {
			n.color = mix(n.color, n.parent.color)
		}
	}
}

func mix(h uint64, more ...uint64) uint64 { return maphash.Comparable(seed, [2]uint64{h, fold(more)}) }

func fold(values []uint64) uint64 {
	var h uint64
	for _, v := range values {
		h = maphash.Comparable(seed, [2]uint64{h, v})
	}
	return h
}

// connect finds out which spans share ids.
func connect(nodes []*node, same map[string]bool) {
	byText := map[string]*id{}
	for _, n := range nodes {
		add := func(text []byte) {
			if len(text) == 0 || same[string(text)] {
				n.ids = append(n.ids, nil)
				return
			}
			i := byText[string(text)]
			if i == nil {
				i = &id{}
				byText[string(text)] = i
			}
			n.ids = append(n.ids, i)
		}
		add(n.GetTraceId())
		add(n.GetSpanId())
		add(n.GetParentSpanId())
		for _, l := range n.GetLinks() {
			add(l.GetTraceId())
			add(l.GetSpanId())
		}
	}
}

// refine gives spans colours until no more of them can be told apart, and returns one of the first colour
// that several still have; nil: all differ.
func refine(nodes []*node) *node {
	for last := 0; ; {
		seen := make(map[uint64]*node, len(nodes))
		var alike *node
		for _, n := range nodes {
			if seen[n.color] != nil && (alike == nil || n.color < alike.color) {
				alike = n
			}
			seen[n.color] = n
		}
		if alike == nil || len(seen) == last {
			return alike
		}
		last = len(seen)
		for _, n := range nodes {
			for place, i := range n.ids {
				if i != nil {
					i.sum += mix(n.color, uint64(place)) // a sum has no order
				}
			}
		}
		for _, n := range nodes {
			for place, i := range n.ids {
				if i != nil {
					n.color = mix(n.color, uint64(place), i.color, i.sum)
				}
			}
		}
		for _, n := range nodes {
			for _, i := range n.ids {
				if i != nil && i.sum != 0 {
					i.color, i.sum = mix(i.color, i.sum), 0
				}
			}
		}
	}
}

// number orders siblings and gives them their place.
func number(siblings []*node, above string) {
	slices.SortFunc(siblings, func(a, b *node) int {
		return cmp.Or(strings.Compare(a.GetName(), b.GetName()), cmp.Compare(a.color, b.color))
	})
	if len(above) > 200 { // a deep tree: what is above stands for itself by its hash
		above = fmt.Sprintf("%016x/", maphash.String(seed, above))
	}
	n := 0
	for i, s := range siblings {
		if n++; i == 0 || siblings[i-1].GetName() != s.GetName() {
			n = 0
		}
		s.place = fmt.Sprintf("%s%.40s#%d", above, s.GetName(), n)
	}
}
