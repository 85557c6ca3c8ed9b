// Package runtime knows what services are written in and run by: how a process
// on a runtime is recognised, how its receives can be linked to its sends, and
// what the kernel side must be told of it besides. One runtime is one file,
// which adds itself to the registry.
//
// It reads what a process has of its own (its executable, what it has mapped)
// and nothing of its sockets; which processes are traced it does not ask. A
// wrong parent is worse than none: only what is known to be right is linked.
package runtime

import (
	"sync"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/tier"
)

// Runtime is one way to run a service. A process is on the first of the
// registered ones that has its executable's name; without one, on the one whose
// Detect says so; without one, on the one whose library it has mapped first.
type Runtime struct {
	Name        string
	Executables []string                     // base names
	Detect      func(p *Process) bool        // nil: names and libraries tell
	Libraries   []string                     // base names
	Linking     config.Linking               // of its services, unless a rule says otherwise
	Why         string                       // reason for Linking
	Check       func(*Process) error         // why this one process cannot be linked so; nil: all can
	Look        func(*Process, Maps) error   // the same when the kernel side asks for it; its error is no more than said
	LookForShim func(*Process, Maps) error   // looks for a shim alone, where one may be loaded into a process that runs
	Attach      func(*Process, Maps) error   // tells the kernel side of one process; nil: Linking is all
	FaultIn     func(*Process, uint32) error // brings into memory what tables say of code, for the kernel side
	Detach      func(pid int, m Maps) error  // takes back what Attach told, also when the process has ended
	Channels    bool                         // unix sockets without a name that several of its processes hold are theirs, and lead to no request
	Demand      tier.Demand                  // hooks that its processes need, attached while one is traced; "": none
}

// Maps are the kernel side's maps, by the names that they have in bpf/. A
// runtime's own hold facts of single processes, by their pid: offsets, recipes.
type Maps interface {
	Put(name string, key, value any) error
	// Delete succeeds if there is no such key.
	Delete(name string, key any) error
}

var (
	registry  []*Runtime
	byName    = map[string]*Runtime{}
	byLibrary = map[string]*Runtime{}
)

// refused is the runtime as processes have it that it cannot link, by the reason.
// Each is one *Runtime, for a change of it is a change of the process. Processes can bring
// about any number of reasons: beyond a bound all are one.
func (r *Runtime) refused(err error) *Runtime {
	why := r.Name + ": " + err.Error()
	refusals.Lock()
	defer refusals.Unlock()
	key := refusal{r.Name, why[:min(len(why), maxWhy)]}
	if refusals.of[key] == nil && len(refusals.of) >= maxRefusals {
		key.why = r.Name + ": it cannot be linked"
	}
	variant := refusals.of[key]
	if variant == nil {
		variant = &Runtime{Name: r.Name, Linking: config.None, Why: key.why}
		refusals.of[key] = variant
	}
	return variant
}

type refusal struct{ name, why string }

const (
	maxRefusals = 1024
	maxWhy      = 512 // bytes
)

var refusals = struct {
	sync.Mutex
	of map[refusal]*Runtime
}{of: map[refusal]*Runtime{}}

// register adds a runtime, while package variables are initialised.
func register(r Runtime) *Runtime {
	registry = append(registry, &r)
	for _, name := range r.Executables {
		byName[name] = &r
	}
	for _, name := range r.Libraries {
		byLibrary[name] = &r
	}
	return &r
}

// detect finds the runtime of a process; unknown if none is recognised.
func detect(p *Process) *Runtime {
	r := recognise(p)
	if r.Check != nil {
		if err := r.Check(p); err != nil {
			return r.refused(err)
		}
	}
	return r
}

func recognise(p *Process) *Runtime {
	if r, ok := byName[p.Name()]; ok {
		return r
	}
	for _, r := range registry {
		if r.Detect != nil && r.Detect(p) {
			return r
		}
	}
	for _, library := range p.libraries() {
		if r, ok := byLibrary[library]; ok {
			return r
		}
	}
	return unknown
}
