package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/bpf"
)

// A runtime may not be up when it is read first, or load later what it will use: it is
// read again after these times; after that no more, but for a shim if one may be loaded
// into it while it runs.
var lookAgain = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// looks reads the runtimes of processes for which the kernel side asks, and tells it.
type looks struct {
	d     *discovery
	log   *slog.Logger
	queue chan look // what finds no room is asked for again by the kernel side
	told  map[[2]string]bool
	again map[int]*time.Timer // by process
}

// A look at a process's runtime or, if it has code, at what its tables say of that.
type look struct {
	pid, try int
	code     uint32
}

func newLooks(d *discovery) *looks {
	return &looks{d: d, log: d.log, queue: make(chan look, 1024), told: map[[2]string]bool{}, again: map[int]*time.Timer{}}
}

// control takes a record of the control ring.
func (l *looks) control(r bpf.Control) {
	if bpf.TareControlType(r.Type) == bpf.TareControlTypeTARE_UNREAD {
		l.ask(look{pid: int(r.Tgid), code: r.Reason})
	}
}

// attached reads a process that ran before the agent did, without waiting for its first
// request. Of one that starts now, little would be there to be read: an SDK, which the kernel
// side does not ask for, is looked for a second later.
func (l *looks) attached(p discover.Process) {
	if l.d.started || !l.ask(look{pid: p.PID}) {
		l.askLater(look{pid: p.PID, try: 1})
	}
}

func (l *looks) askLater(k look) {
	time.AfterFunc(lookAgain[0], func() {
		if !l.ask(k) && k.try <= len(lookAgain) {
			l.askLater(look{pid: k.pid, try: k.try + 1})
		}
	})
}

func (l *looks) ask(k look) bool {
	select {
	case l.queue <- k:
		return true
	default:
		return false
	}
}

func (l *looks) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case k := <-l.queue:
			l.look(k)
		}
	}
}

func (l *looks) look(k look) {
	var p *discover.Process
	l.d.mu.Lock()
	l.d.system.Inspect([]int{k.pid}, func(_ int, found discover.Process, ok bool, _ error) {
		if ok {
			p = &found
		}
	})
	l.d.mu.Unlock()
	if k.code != 0 {
		if p != nil {
			_ = p.FaultIn(k.code) // it has ended, or nothing is there: what is not linked is counted
		}
		return
	}
	if t := l.again[k.pid]; t != nil {
		t.Stop()
		delete(l.again, k.pid)
	}
	if p == nil {
		return
	}
	read, last := p.Look, len(lookAgain)-1
	if k.try > last+1 {
		read = p.LookForShim
	} else {
		l.lookPublished(p)
	}
	if k.try <= last || p.Runtime != nil && p.Runtime.LookForShim != nil {
		l.again[k.pid] = time.AfterFunc(lookAgain[min(k.try, last)], func() { l.ask(look{pid: k.pid, try: k.try + 1}) })
	}
	err := read(l.d.tracer)
	if err == nil {
		return
	}
	l.tell(p.Service.Name, err.Error(), "not all of its tasks can be read; those are not linked",
		"service", p.Service.Name, "runtime", p.Runtime.Name, "reason", err)
}

// lookPublished reads where an SDK in the process publishes its current span, if one does.
func (l *looks) lookPublished(p *discover.Process) {
	found, err := p.LookPublished(l.d.tracer)
	switch service := p.Service.Name; {
	case err != nil:
		l.tell(service, err.Error(), "which span of its SDK is current cannot be read", "service", service, "reason", err)
	case found:
		l.tell(service, "published", "its SDK tells which span is current", "service", service)
	}
}

// tell logs what was found of a service, once.
func (l *looks) tell(service, what, text string, args ...any) {
	key := [2]string{service, what}
	if l.told[key] {
		return
	}
	if len(l.told) >= maxDecisions {
		clear(l.told)
	}
	l.told[key] = true
	l.log.Info(text, args...)
}
