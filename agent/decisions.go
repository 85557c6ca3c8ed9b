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
	header   func(number uint16) string // name of a correlation header

	mu     sync.Mutex
	logged map[decision]bool
}

type decision struct {
	service string
	kind    bpf.TareControlType
	reason  uint32 // why it is refused; or which workers are linked
}

// Of bpf/state.bpf.h.
const (
	workerHeader = 5 // WORKER_HEADER
	workerStack  = 6 // WORKER_STACK
)

// workers are those of enum worker_kind, and why what they send is linked.
var workers = [...]struct{ linking, why string }{
	{"thread", "each thread works for one request at a time"},
	{"task", "virtual threads of Java are told apart by their ids"},
	{"task", "greenlets are told apart by their addresses"},
	{"task", "asyncio's tasks are told apart by the transport that they were made for"},
	{"task", "a shim in the process tells whose work a thread does"},
	workerStack:  {"auto", "coroutines are told apart by the mappings that their stacks are"},
	workerHeader: {"header", "of calls that nothing else links, a header that the service forwards tells whose they are"},
}

func newDecisions(log *slog.Logger, resource func(uint16) *span.Resource, header func(uint16) string) *decisions {
	return &decisions{log: log, resource: resource, header: header, logged: map[decision]bool{}}
}

// control takes a record of the control ring.
func (d *decisions) control(r bpf.Control) {
	of := decision{kind: bpf.TareControlType(r.Type), reason: r.Reason}
	switch of.kind {
	case bpf.TareControlTypeTARE_LINKS:
		if int(r.Reason) >= len(workers) {
			return
		}
	case bpf.TareControlTypeTARE_REFUSED, bpf.TareControlTypeTARE_MPTCP:
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
	switch of.kind {
	case bpf.TareControlTypeTARE_LINKS:
		how := []any{"service", of.service, "linking", workers[of.reason].linking, "why", workers[of.reason].why}
		if of.reason == workerHeader {
			how = append(how, "header", d.header(r.Port))
		}
		d.log.Info("calls are linked", how...)
	case bpf.TareControlTypeTARE_MPTCP:
		d.log.Warn("connections over MPTCP are counted, and not traced; where clients may use TCP: sysctl net.mptcp.enabled=0",
			"service", of.service)
	default:
		d.log.Warn("calls are not linked any more", "service", of.service, "reason", event.UnlinkedName(of.reason),
			"why", event.UnlinkedWhy(of.reason))
	}
}
