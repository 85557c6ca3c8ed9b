package agent

import "github.com/tare-trace/tare/bpf"

// recycle takes from the kernel side's tables what names services that have
// ended, and gives up their indices when nothing names them any more. It follows
// a scan. d.mu is held.
func (d *discovery) recycle() error {
	for inode, s := range d.sockets {
		if s.holders == 0 && !d.system.Listens(inode) {
			d.close(inode, s)
		}
	}
	listeners, err := d.tracer.Listeners()
	if err != nil {
		return err
	}
	inUse, err := d.inUse()
	if err != nil {
		return err
	}
	doubted := d.doubted
	d.doubted = map[bpf.PortKey]bool{}
	named := map[uint16]bool{}
	for k, s := range listeners {
		stale := d.listening[k] == 0 && !inUse[s.Index]
		if stale && doubted[k] {
			if err := d.tracer.RemoveListener(k); err != nil {
				return err
			}
			continue
		}
		named[s.Index] = true
		if stale { // or younger than the scan
			d.doubted[k] = true
		}
	}
	for _, s := range d.services.rested() {
		if inUse[s.index] || named[s.index] {
			continue
		}
		if d.released != nil {
			if err := d.released(s.index); err != nil {
				return err
			}
		}
		d.services.release(s)
	}
	return nil
}

// inUse are the indices of processes that only the kernel side knows, such as
// children that no rule selects, and of sockets that somebody else holds.
func (d *discovery) inUse() (map[uint16]bool, error) {
	processes, err := d.tracer.Processes()
	if err != nil {
		return nil, err
	}
	indices := map[uint16]bool{}
	for pid, s := range processes {
		if d.known[int(pid)] == nil {
			indices[s.Index] = true
		}
	}
	for _, s := range d.sockets {
		if s.holders == 0 {
			indices[s.service.index] = true
		}
	}
	return indices, nil
}
