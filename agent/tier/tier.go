// Package tier is the table of what the tracer hooks into: the tiers, their
// programs in the order of attachment, the kernel features that these need, and
// what is lost without those that a tier can do without. Package kernel loads
// and attaches by it, package probe tries what it names; the flags, doctor and
// the documentation take their lists from it. It loads and tries nothing itself.
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
	Needs    []string  // features that every program of it needs
	Switches []string  // constants of the object that are true in this tier
	Programs []Program // in the order in which they are attached
}

// Program is a program of package bpf at its hook. The hook given here wins over
// the one that the object was compiled for, so that tiers can share a program.
type Program struct {
	Name  string // in the object
	Hook  Hook
	For   string   // what the hook is for
	Needs []string // features besides the hook

	// Capability names what the tracer loses where the hook or a feature is
	// absent; without a name the tier cannot do without the program.
	Capability string
	Without    string // what the absence costs; "": nothing can be traced
}

// Hook is a place in the kernel that a program can be attached to.
type Hook struct {
	Type   ebpf.ProgramType
	Attach ebpf.AttachType
	To     string // "" where the attach type says it all
}

// Feature is something that a kernel, with the privileges at hand, has or lacks.
type Feature struct {
	Name    string
	Needed  string // what for
	Without string // what its absence costs
	Hook    *Hook  // of the features that are hooks
}

// Loss is a capability that the tracer has to do without on this machine.
type Loss struct {
	Capability string `json:"capability"`
	Without    string `json:"without"`
	Reason     string `json:"reason"`
}

var prefixes = map[ebpf.AttachType]string{
	ebpf.AttachTraceRawTp:    "tp_btf/",
	ebpf.AttachTraceFEntry:   "fentry/",
	ebpf.AttachTraceFExit:    "fexit/",
	ebpf.AttachTraceIter:     "iter/",
	ebpf.AttachCGroupSockOps: "sock_ops",
}

// String is the hook's name among the features: "tp_btf/tcp_destroy_sock".
func (h Hook) String() string {
	prefix, ok := prefixes[h.Attach]
	if !ok {
		return fmt.Sprintf("%v %v/%s", h.Type, h.Attach, h.To)
	}
	return prefix + h.To
}

// Features are all that the program needs, its hook first.
func (p *Program) Features() []string {
	return append([]string{p.Hook.String()}, p.Needs...)
}

// Lost is the loss of what the program is for.
func (p *Program) Lost(reason string) Loss {
	return Loss{Capability: p.Capability, Without: p.Without, Reason: reason}
}

// Requires are the features that the tier cannot do without.
func (t *Tier) Requires() []string {
	list := slices.Clone(t.Needs)
	for _, p := range t.Programs {
		if p.Capability != "" {
			continue
		}
		for _, name := range p.Features() {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
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

// Find finds a tier by its name; "" means the best.
func Find(name string) (*Tier, error) {
	for i := range All {
		if name == All[i].Name || name == "" {
			return &All[i], nil
		}
	}
	return nil, fmt.Errorf("no tier %q: there is %s", name, strings.Join(Names(), ", "))
}

// Features are all features in the order in which doctor shows them: what tiers
// or options need, then what nothing needs yet.
func Features() []Feature {
	list := []Feature{btf}
	known := map[string]bool{}
	for _, t := range All {
		for _, p := range t.Programs {
			name, without := p.Hook.String(), p.Without
			if known[name] || p.For == "" {
				continue
			}
			known[name] = true
			if without == "" {
				without = nothing
			}
			list = append(list, Feature{name, p.For, without, &p.Hook})
		}
	}
	return slices.Concat(list, features, unused)
}
