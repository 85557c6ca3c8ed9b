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
	of     tier.Demand
	by     bpf.TareControlType // record by which the kernel side asks for them; 0: it never does
	keep   time.Duration       // how long they stay attached when nobody needs them any more
	begins bool                // attach them whenever a traced program starts: the first use, which asks for them, would be missed
	lost   string              // beginning of the warning that they cannot be attached

	held  int  // traced processes that need them
	asked bool // asked for within the last keep
	on    bool
	end   *time.Timer // clears asked
}

// demands keeps such hooks attached while the kernel side asks for them, while
// processes are traced whose runtime needs them, and when programs have just begun.
type demands struct {
	attach func(tier.Demand, bool) error // Tracer.Demand
	log    *slog.Logger

	mu  sync.Mutex
	all []*demand
}

// newDemands begins with all hooks attached, as a tier starts; start detaches those that are not needed.
func newDemands(attach func(tier.Demand, bool) error, log *slog.Logger) *demands {
	d := &demands{attach: attach, log: log, all: []*demand{
		{
			// services that go on without a proof ask twice a second (bpf/proof.bpf.h)
			of: tier.Proofs, by: bpf.TareControlTypeTARE_UNPROVEN, keep: 5 * time.Second,
			lost: "calls of services that are new are not linked: what shows how their threads wait",
		},
		{
			// traced processes that begin to ask say so, and scans find sockets that have
			of: tier.Lookups, by: bpf.TareControlTypeTARE_LOOKS_UP, keep: time.Minute, begins: true,
			lost: "look-ups of names have no spans: what sees them",
		},
		{
			// traced processes that begin to use such sockets say so (bpf/thread.bpf.h), and
			// scans find those that have some
			of: tier.Loops, by: bpf.TareControlTypeTARE_TURNS, keep: time.Minute,
			lost: "calls of event loops that use unix sockets, or UDP, are not linked: what sees those",
		},
		{
			of: tier.Handovers, keep: time.Minute, // processes alone need them
			lost: "requests that are handed over are not linked: what shows who takes them",
		},
		{
			// traced processes that connect or ask over unix sockets say so once a second
			// (bpf/unix.bpf.h), and scans find those that listen
			of: tier.Unix, by: bpf.TareControlTypeTARE_UNIX, keep: time.Minute, begins: true,
			lost: "connections over unix sockets are not seen: what sees them",
		},
	}}
	for _, x := range d.all {
		x.on = true
		x.end = time.AfterFunc(x.keep, func() { d.change(x, func() { x.asked = false }) })
		x.end.Stop()
	}
	return d
}

// start detaches what nobody has asked for yet: a scan has found what runs.
func (d *demands) start() {
	for _, x := range d.all {
		d.change(x, func() {})
	}
}

// control takes a record of the control ring.
func (d *demands) control(r bpf.Control) {
	for _, x := range d.all {
		if x.by != 0 && bpf.TareControlType(r.Type) == x.by {
			d.ask(x, 0)
		}
	}
}

// began notes that a traced program has just begun: most open their connections and
// look names up then.
func (d *demands) began() {
	for _, x := range d.all {
		if x.begins {
			d.ask(x, 0)
		}
	}
}

// hold adds to the number of processes that need hooks; 0: they are needed once, and kept for keep.
func (d *demands) hold(of tier.Demand, processes int) {
	for _, x := range d.all {
		if x.of == of {
			d.ask(x, processes)
		}
	}
}

// need is hold without keep: the hooks are detached as soon as the number is 0.
func (d *demands) need(of tier.Demand, more int) {
	for _, x := range d.all {
		if x.of == of {
			d.change(x, func() { x.held += more })
		}
	}
}

// attached says of each whether its hooks are attached.
func (d *demands) attached() map[tier.Demand]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[tier.Demand]bool, len(d.all))
	for _, x := range d.all {
		all[x.of] = x.on
	}
	return all
}

func (d *demands) ask(x *demand, processes int) {
	d.change(x, func() {
		x.held += processes
		x.asked = true
		x.end.Reset(x.keep)
	})
}

// change updates a demand, and attaches or detaches its hooks accordingly.
func (d *demands) change(x *demand, update func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	update()
	on := x.asked || x.held > 0
	if x.on == on {
		return
	}
	if err := d.attach(x.of, on); err != nil {
		d.log.Warn(x.lost+" cannot be attached", "error", err)
		return
	}
	x.on = on
}
