// Package tier is the table of what the tracer hooks into: the tiers, their
// programs in the order of attachment, and what is lost without those that a tier
// can do without. Package kernel loads and attaches by it, which also tells whether a
// tier works; the flags, doctor and the documentation take their lists from it. It
// loads nothing itself.
package tier

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// Tier is a set of kernel programs that together can trace.
type Tier struct {
	Name     string
	Since    string    // the Linux version whose hooks it needs; "" where all that can trace have them
	ByName   bool      // taken only where it is asked for by its name
	Switches []string  // constants of the object that are true in this tier
	Programs []Program // in the order in which they are attached
}

// Program is a program of package bpf at its hook. The hook given here wins over
// the one that the object was compiled for, so that tiers can share a program.
type Program struct {
	Name string // in the object
	Hook Hook
	Also []string // further places of its kind that it is attached to
	For  string   // what the hook is for
	// OnDemand says for what it is attached, while that is needed; it is attached at the
	// start, too, until the running processes are known. "" of what is always attached.
	OnDemand Demand

	// Capability names what the tracer loses where the kernel refuses the program;
	// without a name the tier cannot do without it.
	Capability string
	Without    string // what the loss costs
	Until      string // the Linux version that needs no such hook any more; its absence costs nothing

	// The kernel leaves a program out where it would interrupt another run of itself on
	// the same CPU. Skippable programs lose nothing by that.
	Skippable bool
}

// Demand is what hooks are attached for that cost something for all of a host.
type Demand string

// What the agent attaches hooks for.
const (
	Proofs  Demand = "proofs"  // how threads wait, while a service is not proven
	Lookups Demand = "lookups" // packets, while traced processes look names up
	Unix    Demand = "unix"    // what is sent and received, while traced services use unix sockets
	Loops   Demand = "loops"   // what is received by all but TCP, while a traced service is an event loop
	// options that are read of sockets, while a process is traced whose runtime says that
	// its servers hand requests over
	Handovers Demand = "handovers"
)

// Hook is a place in the kernel that a program can be attached to.
type Hook struct {
	Type   ebpf.ProgramType
	Attach ebpf.AttachType // 0 where the type says it all
	To     string          // "" where there is one such place
}

// Loss is a capability that the tracer has to do without on this machine.
type Loss struct {
	Capability string `json:"capability"`
	Without    string `json:"without"`
	Reason     string `json:"reason"`
}

// kinds are the hooks' names before the place.
var kinds = map[Hook]string{
	{Type: ebpf.Tracing, Attach: ebpf.AttachTraceRawTp}:  "tp_btf/",
	{Type: ebpf.Tracing, Attach: ebpf.AttachTraceFEntry}: "fentry/",
	{Type: ebpf.Tracing, Attach: ebpf.AttachTraceIter}:   "iter/",
	{Type: ebpf.Kprobe}:     "kprobe/",
	{Type: ebpf.TracePoint}: "tracepoint/",
	{Type: ebpf.Syscall}:    "syscall",
	{Type: ebpf.SockOps, Attach: ebpf.AttachCGroupSockOps}:       "sock_ops",
	{Type: ebpf.CGroupSKB, Attach: ebpf.AttachCGroupInetIngress}: "cgroup_skb/ingress",
	{Type: ebpf.CGroupSKB, Attach: ebpf.AttachCGroupInetEgress}:  "cgroup_skb/egress",
	{Type: ebpf.SchedCLS, Attach: ebpf.AttachTCXEgress}:          "tcx/egress",

	{Type: ebpf.CGroupSockopt, Attach: ebpf.AttachCGroupGetsockopt}:    "cgroup/getsockopt",
	{Type: ebpf.CGroupSockAddr, Attach: ebpf.AttachCGroupInet4Connect}: "cgroup/connect4",
	{Type: ebpf.CGroupSockAddr, Attach: ebpf.AttachCGroupInet6Connect}: "cgroup/connect6",
	{Type: ebpf.CGroupSockAddr, Attach: ebpf.AttachCGroupUDP4Sendmsg}:  "cgroup/sendmsg4",
	{Type: ebpf.CGroupSockAddr, Attach: ebpf.AttachCGroupUDP6Sendmsg}:  "cgroup/sendmsg6",
	{Type: ebpf.CGroupSockAddr, Attach: ebpf.AttachCgroupUnixConnect}:  "cgroup/connect_unix",
}

// String is the hook's name, as libbpf names sections: "tp_btf/tcp_destroy_sock".
func (h Hook) String() string {
	kind, ok := kinds[Hook{Type: h.Type, Attach: h.Attach}]
	if !ok {
		return fmt.Sprintf("%v %v/%s", h.Type, h.Attach, h.To)
	}
	return kind + h.To
}

// Hooks are all that the program is attached to.
func (p *Program) Hooks() []Hook {
	list := []Hook{p.Hook}
	for _, to := range p.Also {
		list = append(list, Hook{p.Hook.Type, p.Hook.Attach, to})
	}
	return list
}

// Lost is the loss of what the program is for.
func (p *Program) Lost(reason string) Loss {
	return Loss{Capability: p.Capability, Without: p.Without, Reason: reason}
}

// Capabilities are what the tier has where the kernel allows it.
func (t *Tier) Capabilities() (names []string) {
	for _, p := range t.Programs {
		if p.Capability != "" && !slices.Contains(names, p.Capability) {
			names = append(names, p.Capability)
		}
	}
	return names
}

// Names lists the tiers, the best first.
func Names() []string {
	names := make([]string, len(All))
	for i := range All {
		names[i] = All[i].Name
	}
	return names
}

// Candidates are the tiers to try for a name, in this order; for "", all that may be
// taken unasked.
func Candidates(name string) (list []*Tier, err error) {
	for i := range All {
		if name == All[i].Name || name == "" && !All[i].ByName {
			list = append(list, &All[i])
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no tier %q: there is %s", name, strings.Join(Names(), ", "))
	}
	return list, nil
}
