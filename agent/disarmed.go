package agent

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tare-trace/tare/bpf"
)

const (
	rearmInterval = time.Second // between walks over the sockets of network namespaces, for this
	disarmedAgain = 5 * time.Minute
)

// disarmed are the network namespaces in which another program has cleared sock_ops flags
// that connections need: Tare sees nothing of their segments until they are armed again.
type disarmed struct {
	log *slog.Logger

	mu     sync.Mutex
	in     map[uint32]bool
	timer  *time.Timer
	walked time.Time
	said   time.Time
}

func newDisarmed(log *slog.Logger) *disarmed {
	d := &disarmed{log: log, in: map[uint32]bool{}, timer: time.NewTimer(time.Hour)}
	d.timer.Stop()
	return d
}

// control takes a record of the control ring.
func (d *disarmed) control(r bpf.Control) {
	if bpf.TareControlType(r.Type) != bpf.TareControlTypeTARE_DISARMED {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.in) == 0 {
		d.timer.Reset(max(0, rearmInterval-time.Since(d.walked)))
	}
	d.in[r.Netns] = true
	if time.Since(d.said) >= disarmedAgain {
		d.said = time.Now()
		d.log.Warn("another program clears the sock_ops flags of connections, by which Tare writes and reads tags: they are set again, and what was sent meanwhile is not linked (tare_disarmed_total); two programs of sock_ops must keep the flags of each other")
	}
}

// take empties it.
func (d *disarmed) take() []uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := slices.Sorted(maps.Keys(d.in))
	clear(d.in)
	d.walked = time.Now()
	return list
}

// rearm arms what is open in network namespaces.
func (d *discovery) rearm(namespaces []uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var in []place
	for _, inode := range namespaces {
		p := place{inode: inode}
		for pid, k := range d.known {
			if k.NetNS == inode {
				p.pids = append(p.pids, pid)
			}
		}
		in = append(in, p)
	}
	d.arm(in)
}
