package agent

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
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
// ended; false if all have.
func (p place) visit(fn func(pid int) error) (bool, error) {
	for _, pid := range p.pids {
		if err := fn(pid); !discover.Gone(err) {
			return true, err
		}
	}
	return false, nil
}

// trust tells the kernel side which networks are trusted, when services are in
// network namespaces that were not known; if all is set, these are all there
// are, and all addresses are read again. A connection asks when it opens, so this
// comes before the processes. d.mu is held.
func (d *discovery) trust(in []place, all bool) error {
	found := d.namespaces
	if all {
		found = map[uint32][]netip.Addr{0: d.namespaces[0]} // 0: the agent's own
		in = append([]place{{pids: []int{0}}}, in...)
	}
	changed := all
	for _, p := range in {
		if _, known := found[p.inode]; known && !all {
			continue
		}
		changed = true
		found[p.inode] = d.namespaces[p.inode] // what cannot be looked at is as it was
		visited, err := p.visit(func(pid int) error {
			addresses, err := d.system.Addresses(pid)
			if err == nil {
				found[p.inode] = addresses
			} else {
				found[p.inode] = union(found[p.inode], addresses)
			}
			return err
		})
		if !visited && found[p.inode] == nil {
			delete(found, p.inode) // a process to come may tell
		}
		if err != nil && d.cfg.TrustsHost() {
			d.log.Warn("some of this host's addresses are not known, connections to them are not tagged", "error", err)
		}
	}
	d.namespaces = found
	maps.DeleteFunc(d.claimed, func(inode uint32, _ bool) bool { _, there := found[inode]; return !there })
	if !changed {
		return nil
	}
	if d.cfg.Metrics != config.MetricsOff {
		d.locate()
	}
	var own [][]netip.Prefix
	if d.cfg.TrustsHost() {
		own = d.own()
	}
	var prefixes, networks []netip.Prefix
	if d.cluster != nil {
		networks = d.cluster.Networks()
	}
	for _, t := range d.cfg.Trust {
		if !t.Host {
			prefixes = append(prefixes, t.Prefixes(nil, networks)...)
		}
	}
	left, err := d.tracer.Trust(append(prefixes, inTurns(own)...)) // who has many addresses comes last
	if d.left.set(leftAddresses, left) {
		inode, most := d.greediest(own)
		d.log.Warn("there is no room for all addresses of this host: connections to some are not tagged; what has the most loses the most",
			"networks_left_out", left, "namespace", inode, "its_networks", most)
	}
	return err
}

// own are the networks that this host's addresses make, of each network namespace: its own
// first. An address for which another host answers is not this host's, whoever gives it to
// themselves. d.mu is held.
func (d *discovery) own() (lists [][]netip.Prefix) {
	for _, inode := range slices.Sorted(maps.Keys(d.namespaces)) {
		addresses := d.namespaces[inode]
		if inode != 0 {
			addresses = d.ours(inode, addresses)
		}
		list := cover(addresses)
		slices.SortStableFunc(list, func(a, b netip.Prefix) int { return (a.Bits() - a.Addr().BitLen()) - (b.Bits() - b.Addr().BitLen()) })
		lists = append(lists, list)
	}
	return lists
}

func (d *discovery) ours(inode uint32, addresses []netip.Addr) []netip.Addr {
	away, err := d.system.Elsewhere(addresses)
	if err != nil {
		d.log.Debug("ask which addresses are other hosts'", "error", err)
	}
	if len(away) > 0 && !d.claimed[inode] {
		d.claimed[inode] = true
		d.log.Warn("a network namespace has addresses that another host answers for: they are not trusted",
			"namespace", inode, "addresses", len(away), "such_as", slices.MinFunc(slices.Collect(maps.Keys(away)), netip.Addr.Compare))
	}
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return away[a] })
}

// greediest is the network namespace with the most networks. d.mu is held.
func (d *discovery) greediest(lists [][]netip.Prefix) (inode uint32, most int) {
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
	for inode, addresses := range d.namespaces {
		for _, a := range addresses {
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

// arm arms what is open in network namespaces, and renews marks there. d.mu is
// held.
func (d *discovery) arm(in []place) {
	for _, p := range in {
		_, err := p.visit(func(pid int) error { return d.system.InNetNS(pid, d.tracer.Arm) })
		if err != nil {
			d.log.Warn("cannot arm the open connections of a network namespace", "pids", p.pids, "error", err)
		}
	}
}
