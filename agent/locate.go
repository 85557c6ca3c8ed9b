package agent

import (
	"net/netip"

	"github.com/tare-trace/tare/agent/discover"
)

// locate notes which addresses the network namespaces of traced services have,
// so that the service behind an address can be named. d.mu is held.
func (d *discovery) locate(places []discover.Process) {
	found := map[netip.Addr]uint32{}
	for _, p := range places {
		addresses, err := discover.Addresses(p.PID)
		if err != nil {
			d.log.Debug("addresses of a network namespace", "pid", p.PID, "error", err)
			continue
		}
		for _, a := range addresses {
			if _, twice := found[a]; twice {
				found[a] = 0 // of two networks that know nothing of each other
				continue
			}
			found[a] = p.NetNS
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
