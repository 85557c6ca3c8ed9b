package kernel

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/tare-trace/tare/agent/claim"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/bpf/hpack"
)

// objects are what all tiers share: every map and variable of the object.
type objects struct {
	bpf.TareMaps
	bpf.TareVariables
}

// program is a program of the tier that is attached.
type program struct {
	tier.Program
	loaded *ebpf.Program
}

// loader loads tiers, one after the other.
type loader struct {
	options Options
	cache   *btf.Cache // the kernel's types take longer to read than anything else
}

// load loads and attaches a tier. Its error is a *Refusal.
func (l *loader) load(chosen *tier.Tier) (*Tracer, error) {
	t := &Tracer{
		tier: chosen, cgroup: l.options.Cgroup,
		trusted: map[bpf.Prefix]uint8{}, demanded: map[tier.Demand][]link.Link{},
	}
	if err := l.start(t); err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

func (l *loader) start(t *Tracer) error {
	refuse := func(p tier.Program, err error) error {
		return &Refusal{Tier: t.tier.Name, Program: p.Name, Hook: p.Hook, Reason: words(err), cause: err}
	}
	spec, err := l.options.spec(t.tier)
	if err != nil {
		return refuse(tier.Program{}, err)
	}
	if t.claim = l.options.Claim; t.claim == nil {
		if t.claim, err = claim.Private(); err != nil {
			return refuse(tier.Program{}, err)
		}
		t.private = true
	}
	programs := spec.Programs
	spec.Programs = nil
	o := ebpf.CollectionOptions{Cache: l.cache, MapReplacements: map[string]*ebpf.Map{bpf.TareMapClaims: t.claim.Map()}}
	coll, err := ebpf.NewCollectionWithOptions(spec, o)
	if err != nil {
		return refuse(tier.Program{}, err)
	}
	defer coll.Close() // of what is not assigned
	o.MapReplacements = maps.Clone(coll.Maps)
	if err := coll.Assign(&t.objs); err != nil {
		return refuse(tier.Program{}, err)
	}
	wanted := t.tier.Programs
	if l.options.Tag == bpf.TagIP {
		wanted = slices.Concat(wanted, tier.IP)
	}
	for _, p := range wanted {
		if p.Capability != "" {
			continue
		}
		if err := l.offered(p.Hook); err != nil {
			return refuse(p, err)
		}
	}
	for _, p := range wanted {
		s := programs[p.Name]
		if s == nil {
			return refuse(p, fmt.Errorf("the object has no program %s", p.Name))
		}
		s.Type, s.AttachType, s.AttachTo = p.Hook.Type, p.Hook.Attach, p.Hook.To
		if l.options.Empty {
			s.Instructions = nothing(p.Hook)
		}
		spec.Programs = map[string]*ebpf.ProgramSpec{p.Name: s}
		err := t.add(p, spec, o, l.options.Cgroup)
		switch {
		case err == nil:
		case p.Capability != "":
			t.lose(p, err)
		default:
			return refuse(p, err)
		}
	}
	if t.events, err = openRing(t.objs.Events); err != nil {
		return refuse(tier.Program{}, fmt.Errorf("open the event ring: %w", err))
	}
	if t.control, err = ringbuf.NewReader(t.objs.Control); err != nil {
		return refuse(tier.Program{}, fmt.Errorf("open the control ring: %w", err))
	}
	if err := t.watches(); err != nil {
		return refuse(tier.Program{}, err)
	}
	if err := t.tryArm(); err != nil {
		return refuse(tier.Program{}, err)
	}
	return nil
}

// spec is the object with the options and the tier's switches set.
func (o *Options) spec(chosen *tier.Tier) (*ebpf.CollectionSpec, error) {
	spec, err := bpf.LoadTare()
	if err != nil {
		return nil, fmt.Errorf("read the embedded kernel programs: %w", err)
	}
	ring := o.RingBytes
	if ring == 0 {
		ring = 4 << 20
	}
	spec.Maps[bpf.TareMapEvents].MaxEntries = uint32(ring)
	spec.Maps[bpf.TareMapHpackStandard].Contents = []ebpf.MapKV{{Key: uint32(0), Value: hpack.Tables()}}
	if o.measures > 0 {
		spec.Maps[bpf.TareMapMeasures].MaxEntries = uint32(o.measures)
	}
	if !o.Metrics {
		spec.Maps[bpf.TareMapMeasures].MaxEntries = 1 // nothing uses it
		spec.Maps[bpf.TareMapMeasuresOther].MaxEntries = 1
	}
	switches := map[string]any{
		"cfg_tag":            o.Tag,
		"cfg_payload":        o.Payload,
		"cfg_traceparent":    o.Traceparent,
		"cfg_parent_based":   o.ParentBased,
		"cfg_sequence":       o.Sequence,
		"cfg_measure":        o.Metrics,
		"cfg_same_host":      o.SameHost,
		"cfg_arm_nv":         o.ArmNV,
		"cfg_wakeup_bytes":   uint32(ring / 2),
		"sampling_threshold": o.Threshold,
	}
	if err := o.retro(spec, switches); err != nil {
		return nil, err
	}
	for _, name := range chosen.Switches {
		switches[name] = true
	}
	switches["cfg_gates"] = !o.Metrics && switches["cfg_by_address"] == nil
	if o.Tag != bpf.TagIP {
		spec.Maps[bpf.TareMapPaths].MaxEntries = 1
	}
	if !o.SameHost && o.Tag != bpf.TagIP {
		spec.Maps[bpf.TareMapInboxes].MaxEntries = 1
	}
	if !slices.Contains(chosen.Switches, "cfg_by_address") {
		spec.Maps[bpf.TareMapConnsByAddress].MaxEntries = 1
		spec.Maps[bpf.TareMapListening].MaxEntries = 1
	}
	for name, value := range switches {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	return spec, nil
}

// offered asks for a hook with a program that does nothing, before the verifier walks
// programs in vain: it takes seconds on slow machines, and what it says of a program is
// beside the point where a hook is absent.
func (l *loader) offered(h tier.Hook) error {
	spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"tare_nothing": {
		Name: "tare_nothing", Type: h.Type, AttachType: h.Attach, AttachTo: h.To,
		Instructions: nothing(h), License: "Dual BSD/GPL",
	}}}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: l.cache})
	if err == nil {
		coll.Close()
	}
	return err
}

// nothing is a program that lets everything pass.
func nothing(h tier.Hook) asm.Instructions {
	verdict := int32(0)
	switch h.Type {
	case ebpf.CGroupSKB, ebpf.CGroupSockAddr, ebpf.CGroupSockopt, ebpf.SockOps:
		verdict = 1
	case ebpf.SchedCLS:
		verdict = -1 // TCX_NEXT
	}
	return asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()}
}

// add loads and attaches the one program of spec.
func (t *Tracer) add(p tier.Program, spec *ebpf.CollectionSpec, o ebpf.CollectionOptions, cgroup string) error {
	coll, err := ebpf.NewCollectionWithOptions(spec, o)
	if err != nil {
		return err
	}
	defer coll.Close() // of its own references to the maps
	loaded := coll.DetachProgram(p.Name)
	if p.Hook == tier.Egress { // by device, see Arm
		if t.devices, err = newDevices(loaded); err != nil {
			_ = loaded.Close() // it never ran
			return err
		}
		t.programs = append(t.programs, program{p, loaded})
		return nil
	}
	if p.Hook == tier.Run { // see SweepUnix
		t.sweep = loaded
		t.programs = append(t.programs, program{p, loaded})
		return nil
	}
	var links []link.Link
	for _, hook := range p.Hooks() {
		l, err := attachTo(hook, loaded, cgroup)
		if err != nil {
			for _, l := range links {
				_ = l.Close()
			}
			_ = loaded.Close() // nothing that it did matters yet
			return fmt.Errorf("attach to %v: %w", hook, err)
		}
		links = append(links, l)
		if walk, ok := l.(*link.Iter); ok {
			t.arm = walk
		}
	}
	if p.OnDemand != "" {
		t.demanded[p.OnDemand] = append(t.demanded[p.OnDemand], links...)
	} else {
		t.links = append(t.links, links...)
	}
	t.programs = append(t.programs, program{p, loaded})
	return nil
}

// attachTo attaches a program as its hook wants it.
func attachTo(h tier.Hook, p *ebpf.Program, cgroup string) (l link.Link, err error) {
	switch {
	case h.Type == ebpf.SockOps || h.Type == ebpf.CGroupSKB || h.Type == ebpf.CGroupSockAddr || h.Type == ebpf.CGroupSockopt:
		if l, err = link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: h.Attach, Program: p}); err != nil {
			return nil, fmt.Errorf("cgroup %s: %w", cgroup, err)
		}
		return l, nil
	case h.Type == ebpf.Kprobe:
		return link.Kprobe(h.To, p, nil)
	case h.Type == ebpf.TracePoint:
		group, name, _ := strings.Cut(h.To, "/")
		if l, err = link.Tracepoint(group, name, p, nil); err != nil {
			return nil, explainTracefs(err)
		}
		return l, nil
	case h.Attach == ebpf.AttachTraceIter:
		return link.AttachIter(link.IterOptions{Program: p})
	}
	return link.AttachTracing(link.TracingOptions{Program: p})
}

// lose notes what the tracer has to do without, unless this kernel needs no such
// hook.
func (t *Tracer) lose(p tier.Program, err error) {
	if p.Until != "" && (errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, os.ErrNotExist)) {
		return
	}
	if !slices.ContainsFunc(t.lost, func(l tier.Loss) bool { return l.Capability == p.Capability }) {
		t.lost = append(t.lost, p.Lost(words(err)))
	}
}

// Tier is the name of the tier that was taken.
func (t *Tracer) Tier() string { return t.tier.Name }

// Capabilities are what the tier has where the kernel allows it.
func (t *Tracer) Capabilities() []string { return t.tier.Capabilities() }

// Lost are those capabilities that this kernel refused.
func (t *Tracer) Lost() []tier.Loss { return t.lost }

// explainTracefs names the remedy where the directory of tracepoints is not mounted.
func explainTracefs(err error) error {
	if mounts, e := os.ReadFile("/proc/self/mounts"); e != nil || strings.Contains(string(mounts), " tracefs ") {
		return err
	}
	return fmt.Errorf("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing (%w)", err)
}
