package agent

import (
	"errors"
	"fmt"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/bpf"
)

// traced is a process that the kernel side knows.
type traced struct {
	discover.Process
	service  *service
	attached bool // its runtime has told what it has to tell
	armed    bool // the kernel side has been told so
}

// socket is an open socket. The kernel side's state of it names the service
// that opened it, whoever has it now.
type socket struct {
	service *service
	holders int // known processes
	untold  bool
}

// tell tells the kernel side of a process, as far as it has changed.
func (d *discovery) tell(p discover.Process) error {
	old := d.known[p.PID]
	if old != nil && old.StartTime != p.StartTime {
		d.forget(p.PID)
		old = nil
	}
	if old == nil || !old.Service.Equal(p.Service) {
		s, err := d.services.get(p.Service)
		if err != nil {
			return err
		}
		if s.processes >= maxServiceProcesses {
			d.refused++
			return errors.Join(
				fmt.Errorf("service %s has more than %d processes: the others are not traced", s.Name, maxServiceProcesses),
				d.tracer.RemoveProcess(uint32(p.PID))) // a fork is traced like its parent
		}
		if s.Linking == config.Loop { // before its first link
			d.newLoops = true
			d.watchLoops(true)
		}
		if err := d.tracer.AddProcess(uint32(p.PID), s.kernel()); err != nil {
			d.refused++
			return err
		}
		d.services.use(s, 1, 0)
		if old != nil {
			d.services.use(old.service, -1, 0)
		}
		d.known[p.PID] = &traced{service: s}
	}
	now := d.known[p.PID]
	// A runtime may be recognised after exec, when its library is mapped.
	if old != nil && (old != now || old.Runtime != p.Runtime) {
		d.detach(old)
	}
	if !now.attached {
		now.attached = true
		d.failed.add(p.Attach(d.tracer))
		d.demands.hold(p.Demand(), 1)
		d.looks.attached(p)
	}
	if old == nil {
		old = now
	}
	// What is open was opened before the process was told to be another service's.
	for _, inode := range without(p.Sockets, old.Sockets) {
		d.hold(inode, old.service)
	}
	for _, inode := range without(old.Sockets, p.Sockets) {
		d.drop(inode)
	}
	d.listens(&p, 1)
	d.listens(&old.Process, -1)
	now.Process = p
	return nil
}

// armed tells the kernel side that all is armed that processes had opened before it
// knew them.
func (d *discovery) armed(pids []int) {
	for _, pid := range pids {
		if p := d.known[pid]; !p.armed {
			p.armed = true
			d.failed.add(d.tracer.Armed(uint32(pid)))
		}
	}
}

// detach takes back what a process's runtime has told.
func (d *discovery) detach(p *traced) {
	if p.attached {
		p.attached = false
		d.failed.add(p.Detach(d.tracer))
		d.demands.hold(p.Demand(), -1)
	}
}

// forget ends what is known of a process.
func (d *discovery) forget(pid int) {
	p := d.known[pid]
	if p == nil {
		return
	}
	delete(d.known, pid)
	d.detach(p)
	d.services.use(p.service, -1, 0)
	for _, inode := range p.Sockets {
		d.drop(inode)
	}
	d.listens(&p.Process, -1)
}

// leave stops tracing a process.
func (d *discovery) leave(pid int) {
	d.forget(pid)
	d.failed.add(d.tracer.RemoveProcess(uint32(pid)))
}

// hold notes that a known process has a socket.
func (d *discovery) hold(inode uint64, s *service) {
	have := d.sockets[inode]
	if have == nil {
		have = &socket{service: s, untold: s.sockets >= maxServiceSockets}
		d.sockets[inode] = have
		d.services.use(s, 0, 1)
		if have.untold {
			d.untold++
		} else {
			d.failed.add(d.tracer.AddInode(inode, s.kernel()))
		}
	}
	have.holders++
}

// drop notes that a known process has a socket no more. A listener that
// somebody else holds, systemd for instance, keeps its service's index.
func (d *discovery) drop(inode uint64) {
	have := d.sockets[inode]
	if have == nil {
		return
	}
	if have.holders--; have.holders > 0 || d.system.Listens(inode) {
		return
	}
	d.close(inode, have)
}

func (d *discovery) close(inode uint64, s *socket) {
	delete(d.sockets, inode)
	d.services.use(s.service, 0, -1)
	if s.untold {
		d.untold--
		return
	}
	d.failed.add(d.tracer.RemoveInode(inode))
}

func (d *discovery) listens(p *discover.Process, n int) {
	for _, port := range p.Listening {
		k := bpf.PortKey{Netns: p.NetNS, Port: uint32(port)}
		if d.listening[k] += n; d.listening[k] == 0 {
			delete(d.listening, k)
		}
	}
}

// without are the numbers of a that b lacks; both are sorted.
func without(a, b []uint64) (left []uint64) {
	for _, n := range a {
		for len(b) > 0 && b[0] < n {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != n {
			left = append(left, n)
		}
	}
	return left
}
