package kernel

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// objects are what all tiers share: every map and variable of the object.
type objects struct {
	bpf.TareMaps
	bpf.TareVariables
}

// program is a program of the tier that is loaded.
type program struct {
	tier.Program
	loaded *ebpf.Program
}

// load loads all maps, and of the object's programs those that the tier lists.
// One that the tier can do without is loaded after the others and by itself, so
// that its refusal costs its capability and nothing else.
func (t *Tracer) load(spec *ebpf.CollectionSpec, programs []tier.Program) error {
	whole := spec.Programs
	only := func(programs ...tier.Program) error {
		spec.Programs = map[string]*ebpf.ProgramSpec{}
		for _, p := range programs {
			s := whole[p.Name]
			if s == nil {
				return fmt.Errorf("the kernel programs are without %s", p.Name)
			}
			s.Type, s.AttachType, s.AttachTo = p.Hook.Type, p.Hook.Attach, p.Hook.To
			spec.Programs[p.Name] = s
		}
		return nil
	}
	optional := func(p tier.Program) bool { return p.Capability != "" }
	if err := only(slices.DeleteFunc(slices.Clone(programs), optional)...); err != nil {
		return err
	}
	o := ebpf.CollectionOptions{Cache: btf.NewCache()}
	coll, err := ebpf.NewCollectionWithOptions(spec, o)
	if err != nil {
		return explainLoad(err)
	}
	defer coll.Close() // of what is not assigned or detached
	o.MapReplacements = coll.Maps
	for _, p := range programs {
		from := coll
		if optional(p) {
			if err := only(p); err != nil {
				return err
			}
			if from, err = ebpf.NewCollectionWithOptions(spec, o); err != nil {
				t.lost = append(t.lost, p.Lost(err.Error()))
				continue
			}
			defer from.Close()
		}
		t.programs = append(t.programs, program{p, from.DetachProgram(p.Name)})
	}
	return coll.Assign(&t.objs)
}

func explainLoad(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
		return fmt.Errorf("this kernel refuses a program; `tare doctor` tells what it allows: %w", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("not allowed to load kernel programs: run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: %w", err)
	}
	return fmt.Errorf("load the kernel programs; `tare doctor` tells what this kernel allows: %w", err)
}

// attach attaches what is loaded in the order of the table, then opens the rings.
func (t *Tracer) attach(cgroup string) (err error) {
	loaded := t.programs
	t.programs = nil
	for i, p := range loaded {
		l, err := attachTo(p.Hook, p.loaded, cgroup)
		switch {
		case err == nil:
			t.links = append(t.links, l)
			t.programs = append(t.programs, p)
			if walk, ok := l.(*link.Iter); ok {
				t.arm = walk
			}
		case p.Capability != "":
			t.lost = append(t.lost, p.Lost(err.Error()))
			_ = p.loaded.Close() // it never ran
		default:
			t.programs = append(t.programs, loaded[i:]...) // to be closed
			return fmt.Errorf("attach %s to %v: %w", p.Name, p.Hook, err)
		}
	}
	if t.events, err = ringbuf.NewReader(t.objs.Events); err != nil {
		return fmt.Errorf("open the event ring: %w", err)
	}
	if t.control, err = ringbuf.NewReader(t.objs.Control); err != nil {
		return fmt.Errorf("open the control ring: %w", err)
	}
	return nil
}

// attachTo attaches a program as its hook's attach type wants it.
func attachTo(h tier.Hook, p *ebpf.Program, cgroup string) (l link.Link, err error) {
	switch h.Attach {
	case ebpf.AttachCGroupSockOps:
		if l, err = link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: h.Attach, Program: p}); err != nil {
			return nil, fmt.Errorf("cgroup %s: %w", cgroup, err)
		}
		return l, nil
	case ebpf.AttachTraceIter:
		return link.AttachIter(link.IterOptions{Program: p})
	}
	return link.AttachTracing(link.TracingOptions{Program: p})
}

// Capabilities are what the tier has where the kernel allows it.
func (t *Tracer) Capabilities() []string { return t.tier.Capabilities() }

// Lost are those capabilities that this kernel refused.
func (t *Tracer) Lost() []tier.Loss { return t.lost }
