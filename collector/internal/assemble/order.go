package assemble

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// place is where a span is among those of its trace.
type place struct {
	item  int32
	host  int32 // 0: the top span's; the others in the order in which they were first seen
	start pcommon.Timestamp
}

// fewHosts is how many hosts of a trace get a list of their own; what further ones have comes behind, as one list.
const fewHosts = 64

// arrange puts the spans of a trace that were not folded in the order in which they are emitted: one list for each host, in
// each the spans as its clock has them, and those that begin at once with the caller first. Clocks of different hosts are
// not compared, as only the tree says what came first between two of them (ChainScope, section 3.3). The result is good
// until the next call.
func (s *shard) arrange(t *trace, top *item) []place {
	s.places = s.places[:0]
	var hosts [fewHosts]*host
	known := int32(0)
	if top != nil {
		hosts[0], known = top.origin.resource.host, 1
	}
	for i := range t.items {
		x := &t.items[i]
		if x.flags&folded != 0 {
			continue
		}
		h := x.origin.resource.host
		n := int32(0)
		for n < known && hosts[n] != h {
			n++
		}
		if n == known && n < fewHosts {
			hosts[n] = h
			known++
		}
		s.places = append(s.places, place{int32(i), n, x.span.StartTimestamp()})
	}
	if !slices.IsSortedFunc(s.places, place.compare) {
		slices.SortStableFunc(s.places, place.compare)
	}
	s.callersFirst(t)
	return s.places
}

func (p place) compare(o place) int {
	if c := cmp.Compare(p.host, o.host); c != 0 {
		return c
	}
	return cmp.Compare(p.start, o.start)
}

// callersFirst orders spans of one host that begin at once.
func (s *shard) callersFirst(t *trace) {
	ranked := false
	for i := 0; i < len(s.places); {
		end := i + 1
		for end < len(s.places) && s.places[i].compare(s.places[end]) == 0 {
			end++
		}
		if end-i > 1 {
			if !ranked {
				s.rank(t)
				ranked = true
			}
			slices.SortStableFunc(s.places[i:end], func(a, b place) int { return cmp.Compare(s.depths[a.item], s.depths[b.item]) })
		}
		i = end
	}
}

// rank sets s.depths: how many spans are above each of the trace's. Where spans are each other's ancestors, one of them is
// taken for the uppermost.
func (s *shard) rank(t *trace) {
	const unknown, underWay = -1, -2
	s.depths = s.depths[:0]
	for range t.items {
		s.depths = append(s.depths, unknown)
	}
	for i := range t.items {
		s.order = s.order[:0] // the way up, to a span whose depth is known
		at := int32(i)
		for at != none && s.depths[at] == unknown {
			s.depths[at] = underWay
			s.order = append(s.order, at)
			at = t.items[at].up
		}
		depth := int32(-1)
		if at != none {
			depth = max(depth, s.depths[at])
		}
		for k := len(s.order) - 1; k >= 0; k-- {
			depth++
			s.depths[s.order[k]] = depth
		}
	}
}
