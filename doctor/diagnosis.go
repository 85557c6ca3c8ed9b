package doctor

import (
	"errors"
	"os"
	"slices"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/agent/platform"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// Verdict is the result in a few words.
type Verdict string

// The verdicts. NeedsPrivileges: as far as known only privileges are missing, to run
// the agent or to try.
const (
	CanRun          Verdict = "can run"
	NeedsPrivileges Verdict = "needs privileges"
	CannotRun       Verdict = "cannot run"
)

// State is what is known of a tier or a feature.
type State string

// Of tiers; Partial: without what is lost. Unknown: it could not be tried with these
// privileges.
const (
	Works   State = "works"
	Partial State = "partial"
	Refused State = "refused"
	Unknown State = "unknown"
)

// NoTier is the tier's name where the agent has none.
const NoTier = "none"

// Diagnosis is what --json prints.
type Diagnosis struct {
	Verdict Verdict `json:"verdict"`
	Tier    string  `json:"tier"` // the one that the agent takes unasked, or "none"
	Tiers   []Tier  `json:"tiers"`
	platform.Facts
	Features []Feature `json:"features"`
}

// Tier is what became of one tier.
type Tier struct {
	Name    string      `json:"name"`
	State   State       `json:"state"`
	Since   string      `json:"since,omitempty"`   // the Linux version whose hooks it needs
	ByName  bool        `json:"by_name,omitempty"` // never taken unasked
	Lost    []tier.Loss `json:"lost,omitempty"`
	Program string      `json:"program,omitempty"` // that is refused
	Hook    string      `json:"hook,omitempty"`
	Error   string      `json:"error,omitempty"`
}

// Feature is what an option of the agent needs beside a tier.
type Feature struct {
	Name    string `json:"name"`
	Option  string `json:"option"`
	State   State  `json:"state"`
	Error   string `json:"error,omitempty"`
	Without string `json:"without"`
}

const untried = "not tried: needs root, or CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_ADMIN"

// Examine tries everything.
func Examine() Diagnosis {
	facts := platform.Read()
	problem := platform.HostPIDs()
	if facts.CgroupV2 == "" {
		problem = errors.Join(problem, platform.ErrNoCgroupV2)
	}
	if problem != nil {
		return diagnose(facts, func(kernel.Options) []kernel.Attempt {
			list := make([]kernel.Attempt, len(tier.All))
			for i := range list {
				list[i] = kernel.Attempt{Tier: &tier.All[i], Err: problem}
			}
			return list
		}, platform.Privileged())
	}
	return diagnose(facts, kernel.Try, platform.Privileged())
}

// diagnose tries the tiers with the agent's defaults. Where none works, it tries them
// without the option that a kernel may refuse.
func diagnose(facts platform.Facts, try func(kernel.Options) []kernel.Attempt, privileged bool) Diagnosis {
	d := Diagnosis{Facts: facts}
	defaults := kernel.Options{Cgroup: facts.CgroupV2, Payload: true, Traceparent: true, ParentBased: true, SameHost: true}
	d.judge(try(defaults), privileged)
	bytes := Feature{
		Name: "message bytes", Option: "--payload", State: Works,
		Without: "spans have no names and traceparent is not read: run with --payload off",
	}
	switch {
	case !privileged:
		bytes.State, bytes.Error = Unknown, untried
	case d.Tier == NoTier:
		bytes.State, bytes.Error = Refused, d.Tiers[0].Error
		without := d
		without.judge(try(kernel.Options{Cgroup: facts.CgroupV2, ParentBased: true, SameHost: true}), privileged)
		if without.Tier != NoTier {
			d = without
		} else {
			bytes.State, bytes.Error = Unknown, "no tier works"
		}
	}
	d.Features = []Feature{bytes, headers(d.Tier, facts.CgroupV2, privileged), statistics(privileged)}
	return d
}

// judge takes down what became of the tiers.
func (d *Diagnosis) judge(attempts []kernel.Attempt, privileged bool) {
	d.Tier, d.Tiers, d.Verdict = NoTier, nil, CanRun
	unknown := false
	for _, a := range attempts {
		t := tierOf(a, privileged)
		d.Tiers = append(d.Tiers, t)
		if (t.State == Works || t.State == Partial) && !t.ByName && d.Tier == NoTier {
			d.Tier = t.Name
		}
		unknown = unknown || t.State == Unknown && !t.ByName
	}
	switch {
	case d.Tier != NoTier:
	case unknown:
		d.Verdict = NeedsPrivileges
	default:
		d.Verdict = CannotRun
	}
}

func tierOf(a kernel.Attempt, privileged bool) Tier {
	t := Tier{Name: a.Tier.Name, Since: a.Tier.Since, ByName: a.Tier.ByName, Lost: slices.Clone(a.Lost), State: Works}
	var refusal *kernel.Refusal
	switch {
	case a.Err == nil && len(a.Lost) > 0:
		t.State = Partial
	case a.Err == nil:
	case !privileged && errors.Is(a.Err, os.ErrPermission):
		t.State, t.Error = Unknown, untried
	case errors.As(a.Err, &refusal):
		t.State, t.Error, t.Program = Refused, refusal.Reason, refusal.Program
		if t.Program != "" {
			t.Hook = refusal.Hook.String()
		}
	default:
		t.State, t.Error = Refused, a.Err.Error()
	}
	return t
}

// headers tries what --tag=ip needs.
func headers(chosen, cgroup string, privileged bool) Feature {
	f := Feature{Name: "IP headers", Option: "--tag=ip", State: Works, Without: "with --tag ip the agent does not start"}
	if chosen == NoTier {
		f.State, f.Error = Unknown, "no tier works"
		return f
	}
	tracer, err := kernel.Load(kernel.Options{Tier: chosen, Cgroup: cgroup, Tag: bpf.TagIP})
	var refusal *kernel.Refusal
	switch {
	case err == nil:
		_ = tracer.Close()
	case !privileged:
		f.State, f.Error = Unknown, untried
	case errors.As(err, &refusal):
		f.State, f.Error = Refused, refusal.Reason
	default:
		f.State, f.Error = Refused, err.Error()
	}
	return f
}

// statistics tries what --bpf-stats needs.
func statistics(privileged bool) Feature {
	f := Feature{Name: "bpf_stats", Option: "--bpf-stats", State: Works, Without: "the tracer's own cost is not shown"}
	stats, err := kernel.EnableStats()
	switch {
	case err == nil:
		stats.Close()
	case !privileged:
		f.State, f.Error = Unknown, untried
	default:
		f.State, f.Error = Refused, err.Error()
	}
	return f
}
