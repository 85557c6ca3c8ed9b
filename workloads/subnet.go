package workloads

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// spaces are searched for a free /30 in this order: corners of the private
// address space (RFC 1918) that are rarely in use, and last the one that is
// reserved for benchmarks of networks (RFC 2544).
var spaces = []netip.Prefix{
	netip.MustParsePrefix("10.224.0.0/11"),
	netip.MustParsePrefix("172.24.0.0/13"),
	netip.MustParsePrefix("192.168.128.0/17"),
	netip.MustParsePrefix("198.18.0.0/15"),
}

// freeSubnet finds a /30 that overlaps nothing that is taken. The search
// begins at a place that start decides: processes that search at the same time
// must not find the same.
func freeSubnet(taken []netip.Prefix, start uint32) (netip.Prefix, error) {
	for _, space := range spaces {
		near := slices.DeleteFunc(slices.Clone(taken), func(p netip.Prefix) bool { return !p.Overlaps(space) })
		if slices.ContainsFunc(near, func(p netip.Prefix) bool { return p.Bits() <= space.Bits() }) {
			continue // all of it is taken
		}
		base := binary.BigEndian.Uint32(space.Addr().AsSlice())
		count := uint32(1) << (30 - space.Bits())
		for i := range count {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], base+(start+i)%count*4)
			subnet := netip.PrefixFrom(netip.AddrFrom4(a), 30)
			if !slices.ContainsFunc(near, subnet.Overlaps) {
				return subnet, nil
			}
		}
	}
	return netip.Prefix{}, fmt.Errorf("no free /30 for a network namespace: routes of this host cover all of %v", spaces)
}

// takenPrefixes are the destinations of all of the host's IPv4 routes, and the
// networks of all its addresses: those of an interface that is down have no
// routes yet.
func takenPrefixes() ([]netip.Prefix, error) {
	routes, err := ip("-4", "-json", "route", "show", "table", "all")
	if err != nil {
		return nil, err
	}
	addresses, err := ip("-4", "-json", "address", "show")
	if err != nil {
		return nil, err
	}
	taken, err1 := parseRoutes(routes)
	more, err2 := parseAddresses(addresses)
	return append(taken, more...), errors.Join(err1, err2)
}

// parseRoutes reads `ip -json route`. Default routes are left out, the halves
// of one (0.0.0.0/1 and 128.0.0.0/1, as tunnels set them) included.
func parseRoutes(b []byte) ([]netip.Prefix, error) {
	var routes []struct {
		Dst string `json:"dst"`
	}
	if len(b) > 0 { // nothing at all is said of no routes
		if err := json.Unmarshal(b, &routes); err != nil {
			return nil, fmt.Errorf("routes of this host, as ip prints them: %w", err)
		}
	}
	var taken []netip.Prefix
	for _, r := range routes {
		if r.Dst == "default" {
			continue
		}
		p, err := netip.ParsePrefix(r.Dst)
		if err != nil {
			a, addrErr := netip.ParseAddr(r.Dst)
			if addrErr != nil {
				return nil, fmt.Errorf("route of this host to %q: %w", r.Dst, err)
			}
			p = netip.PrefixFrom(a.WithZone(""), a.BitLen())
		}
		if p.Addr().Is4() && p.Bits() > 1 {
			taken = append(taken, p.Masked())
		}
	}
	return taken, nil
}

// parseAddresses reads `ip -json address`.
func parseAddresses(b []byte) ([]netip.Prefix, error) {
	var links []struct {
		Addresses []struct {
			Local string `json:"local"`
			Bits  int    `json:"prefixlen"`
		} `json:"addr_info"`
	}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &links); err != nil {
			return nil, fmt.Errorf("addresses of this host, as ip prints them: %w", err)
		}
	}
	var taken []netip.Prefix
	for _, l := range links {
		for _, a := range l.Addresses {
			addr, err := netip.ParseAddr(a.Local)
			if err != nil || !addr.Is4() {
				continue
			}
			p, err := addr.Prefix(a.Bits)
			if err != nil {
				return nil, fmt.Errorf("address of this host %s/%d: %w", a.Local, a.Bits, err)
			}
			taken = append(taken, p)
		}
	}
	return taken, nil
}
