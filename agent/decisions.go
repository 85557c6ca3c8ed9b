package agent

import (
	"log/slog"
	"sync"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// maxDecisions bounds what is remembered as logged; beyond it, a line may be
// repeated for another container.
const maxDecisions = 4096

// decisions logs what the kernel side decides about linking, once per service and
// not for each of its containers.
type decisions struct {
	log      *slog.Logger
	resource func(index uint16) *span.Resource

	mu     sync.Mutex
	logged map[decision]bool
}

type decision struct {
	service string
	reason  uint32 // 0: linked
}

func newDecisions(log *slog.Logger, resource func(uint16) *span.Resource) *decisions {
	return &decisions{log: log, resource: resource, logged: map[decision]bool{}}
}

// control takes a record of the control ring.
func (d *decisions) control(r bpf.Control) {
	of := decision{reason: r.Reason}
	switch bpf.TareControlType(r.Type) {
	case bpf.TareControlTypeTARE_LINKS:
	case bpf.TareControlTypeTARE_REFUSED:
	default:
		return
	}
	res := d.resource(r.Service)
	if res == nil {
		return // released meanwhile
	}
	of.service = res.Service
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logged[of] {
		return
	}
	if len(d.logged) >= maxDecisions {
		clear(d.logged)
	}
	d.logged[of] = true
	if of.reason == 0 {
		d.log.Info("calls are linked", "service", of.service, "linking", "thread", "why", "each thread works for one request at a time")
		return
	}
	d.log.Warn("calls are not linked any more", "service", of.service, "reason", event.UnlinkedName(of.reason),
		"why", event.UnlinkedWhy(of.reason))
}
