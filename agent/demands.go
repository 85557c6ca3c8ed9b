package agent

import (
	"log/slog"
	"sync"
	"time"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// demand is a set of hooks that cost something for all of this host, so that they
// are attached only while they are needed.
type demand struct {
	of   tier.Demand
	by   bpf.TareControlType
	keep time.Duration // how long they stay attached when nobody needs them any more
	lost string        // what is not seen where they cannot be attached

	held int // traced processes that need them
	on   bool
	end  *time.Timer
}

// demands keeps such hooks attached while the kernel side asks for them, or while
// processes are traced whose runtime needs them.
type demands struct {
	attach func(tier.Demand, bool) error // Tracer.Demand
	log    *slog.Logger

	mu  sync.Mutex
	all []*demand
}

func newDemands(attach func(tier.Demand, bool) error, log *slog.Logger) *demands {
	d := &demands{attach: attach, log: log, all: []*demand{
		{
			// services that go on without a proof ask twice a second (bpf/proof.bpf.h)
			of: tier.Proofs, by: bpf.TareControlTypeTARE_UNPROVEN, keep: 5 * time.Second,
			lost: "calls of services that are new are not linked: what shows how their threads wait",
		},
		{
			of: tier.Lookups, by: bpf.TareControlTypeTARE_LOOKS_UP, keep: time.Minute,
			lost: "look-ups of names have no spans: what sees them",
		},
		{
			of: tier.Handovers, keep: time.Minute, // processes alone need them
			lost: "requests that are handed over are not linked: what shows who takes them",
		},
		{
			// traced processes that connect or ask over unix sockets say so once a second
			// (bpf/unix.bpf.h), and scans find those that listen
			of: tier.Unix, by: bpf.TareControlTypeTARE_UNIX, keep: time.Minute,
			lost: "connections over unix sockets are not seen: what sees them",
		},
	}}
	for _, x := range d.all { // attached at the start
		x.on = true
		x.end = time.AfterFunc(x.keep, func() { d.set(x, false) })
	}
	return d
}

// control takes a record of the control ring.
func (d *demands) control(r bpf.Control) {
	for _, x := range d.all {
		if x.by != 0 && bpf.TareControlType(r.Type) == x.by {
			x.end.Reset(x.keep)
			d.set(x, true)
		}
	}
}

// hold notes that so many processes more, or fewer, need hooks.
func (d *demands) hold(of tier.Demand, processes int) {
	for _, x := range d.all {
		if x.of != of {
			continue
		}
		d.mu.Lock()
		x.held += processes
		d.mu.Unlock()
		x.end.Reset(x.keep)
		d.set(x, true)
	}
}

func (d *demands) set(x *demand, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x.on == on || !on && x.held > 0 {
		return
	}
	if err := d.attach(x.of, on); err != nil {
		d.log.Warn(x.lost+" cannot be attached", "error", err)
		return
	}
	x.on = on
}
