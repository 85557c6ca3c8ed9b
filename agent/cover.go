package agent

import (
	"net/netip"
	"slices"
)

// cover is the smallest set of networks that hold exactly these addresses.
func cover(addresses []netip.Addr) []netip.Prefix {
	sorted := slices.Clone(addresses)
	slices.SortFunc(sorted, netip.Addr.Compare)
	var done []netip.Prefix // in order; neighbours that make a network are one
	for _, a := range slices.Compact(sorted) {
		p := netip.PrefixFrom(a, a.BitLen())
		for len(done) > 0 && p.Bits() > 0 {
			wider := netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked()
			before := done[len(done)-1]
			if before.Bits() != p.Bits() || before.Addr() != wider.Addr() || before.Addr() == p.Addr() {
				break
			}
			p, done = wider, done[:len(done)-1]
		}
		done = append(done, p)
	}
	return done
}

// inTurns takes one of each list, then another one of each: where there is no room for
// all, who has the most loses the most.
func inTurns[T any](lists [][]T) (all []T) {
	for n := 0; ; n++ {
		before := len(all)
		for _, l := range lists {
			if n < len(l) {
				all = append(all, l[n])
			}
		}
		if len(all) == before {
			return all
		}
	}
}
