package agent

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/agent/kernel"
)

// place is a network namespace with some of its processes: any may have ended.
type place struct {
	inode uint32
	pids  []int
}

// places are the network namespaces of processes.
func places(ps []discover.Process) (list []place) {
	at := map[uint32]int{}
	for i := range ps {
		n, ok := at[ps[i].NetNS]
		if !ok {
			n = len(list)
			at[ps[i].NetNS] = n
			list = append(list, place{inode: ps[i].NetNS})
		}
		list[n].pids = append(list[n].pids, ps[i].PID)
	}
	return list
}

// visit does something in the network namespace by a process that has not
// ended, if one has not.
func (p place) visit(fn func(pid int) error) error {
	for _, pid := range p.pids {
		if err := fn(pid); !discover.Gone(err) {
			return err
		}
	}
	return nil
}

// namespace is what is known of a network namespace.
type namespace struct {
	addresses []netip.Addr
	here      map[netip.Addr]bool // those that are proven to be on this host; of the agent's own, all are
}

// trust tells the kernel side which networks are trusted, when services are in
// network namespaces that were not known; if all is set, these are all there
// are, and all addresses are read again. A connection asks when it opens, so this
// comes before the processes. d.mu is held.
func (d *discovery) trust(in []place, all bool) error {
	found := d.namespaces
	if all {
		found = map[uint32]*namespace{}
		in = append([]place{{pids: []int{0}}}, in...) // inode 0: the agent's own
	}
	changed := all
	for _, p := range in {
		if found[p.inode] != nil && !all {
			continue
		}
		changed = true
		n := d.namespaces[p.inode] // what cannot be looked at is as it was
		err := p.visit(func(pid int) (err error) {
			n, err = d.look(p.inode, pid, n)
			return err
		})
		if n != nil { // else a process to come may tell
			found[p.inode] = n
		}
		if err != nil && d.cfg.TrustsHost() {
			d.log.Warn("some of this host's addresses are not known, connections to them are not tagged", "error", err)
		}
	}
	d.namespaces = found
	if !changed {
		return nil
	}
	if d.cfg.Metrics != config.MetricsOff {
		d.locate()
	}
	var own [][]kernel.Network
	if d.cfg.TrustsHost() {
		own = d.own()
	}
	var named []kernel.Network
	var networks []netip.Prefix
	if d.cluster != nil {
		networks = d.cluster.Networks()
	}
	for _, t := range d.cfg.Trust {
		if t.Host {
			continue
		}
		for _, p := range t.Prefixes(nil, networks) {
			named = append(named, kernel.Network{Prefix: p})
		}
	}
	list := inTurns(own) // who has many addresses comes last
	list = slices.DeleteFunc(list, func(n kernel.Network) bool {
		return n.Near && slices.ContainsFunc(named, func(w kernel.Network) bool { return w.Bits() <= n.Bits() && w.Contains(n.Addr()) })
	})
	left, err := d.tracer.Trust(append(named, list...))
	if d.left.set(leftAddresses, left) {
		inode, most := d.greediest(own)
		d.log.Warn("there is no room for all addresses of this host: connections to some are not tagged; what has the most loses the most",
			"networks_left_out", left, "namespace", inode, "its_networks", most)
	}
	return err
}

// look reads the addresses of a network namespace by one of its processes, and which are here. Of
// those that were known none is forgotten that could not be read; nil: nothing is known.
func (d *discovery) look(inode uint32, pid int, known *namespace) (*namespace, error) {
	addresses, err := d.system.Addresses(pid)
	if discover.Gone(err) || err != nil && len(addresses) == 0 {
		return known, err
	}
	if err != nil && known != nil {
		addresses = union(known.addresses, addresses)
	}
	n := &namespace{addresses: addresses}
	if inode == 0 {
		return n, err
	}
	here, unproven := d.system.Here(pid, addresses)
	if discover.Gone(unproven) {
		return known, unproven
	}
	if unproven != nil {
		d.log.Debug("ask which addresses are on this host", "error", unproven)
	}
	n.here = here
	return n, err
}

// own are the networks that this host's addresses make, of each network namespace: its own
// first. An address that is not proven to be on this host may be another's, whoever has given it to
// themselves: nothing goes to it over the wire, nor is anything from there believed. d.mu is held.
func (d *discovery) own() (lists [][]kernel.Network) {
	for _, inode := range slices.Sorted(maps.Keys(d.namespaces)) {
		n := d.namespaces[inode]
		var here, near []netip.Addr
		for _, a := range n.addresses {
			if inode == 0 || n.here[a] {
				here = append(here, a)
			} else if d.cfg.SameHost { // else the wire is all there is
				near = append(near, a)
			}
		}
		var list []kernel.Network
		for _, p := range cover(here) {
			list = append(list, kernel.Network{Prefix: p})
		}
		for _, p := range cover(near) {
			list = append(list, kernel.Network{Prefix: p, Near: true})
		}
		slices.SortStableFunc(list, func(a, b kernel.Network) int { return (a.Bits() - a.Addr().BitLen()) - (b.Bits() - b.Addr().BitLen()) })
		lists = append(lists, list)
	}
	return lists
}

// greediest is the network namespace with the most networks. d.mu is held.
func (d *discovery) greediest(lists [][]kernel.Network) (inode uint32, most int) {
	for i, of := range slices.Sorted(maps.Keys(d.namespaces)) {
		if i < len(lists) && len(lists[i]) > most {
			inode, most = of, len(lists[i])
		}
	}
	return inode, most
}

func union(a, b []netip.Addr) []netip.Addr {
	all := slices.SortedFunc(slices.Values(slices.Concat(a, b)), netip.Addr.Compare)
	return slices.Compact(all)
}

// locate notes which addresses the network namespaces of traced services have,
// so that the service behind an address can be named. d.mu is held.
func (d *discovery) locate() {
	found := map[netip.Addr]uint32{}
	for inode, n := range d.namespaces {
		for _, a := range n.addresses {
			if inode == 0 || a.IsLoopback() {
				continue
			}
			if _, twice := found[a]; twice {
				found[a] = 0 // of two networks that know nothing of each other
				continue
			}
			found[a] = inode
		}
	}
	d.addresses.Store(&found)
}

// namespace finds the network namespace that has an address; loopback
// addresses belong to none.
func (d *discovery) namespace(a netip.Addr) (inode uint32, ok bool) {
	found := d.addresses.Load()
	if found == nil {
		return 0, false
	}
	inode = (*found)[a.Unmap()]
	return inode, inode != 0
}

// arm arms what is open in network namespaces, and renews marks there; false if
// that failed in some. d.mu is held.
func (d *discovery) arm(in []place) bool {
	all := true
	for _, p := range in {
		err := p.visit(func(pid int) error { return d.system.InNetNS(pid, d.tracer.Arm) })
		if err != nil {
			d.log.Warn("cannot arm the open connections of a network namespace", "pids", p.pids, "error", err)
			all = false
		}
	}
	return all
}
