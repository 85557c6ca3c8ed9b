package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What shows the rates of samplers over time.
const (
	xTime  = "time"
	yRates = "rates"
)

// minFollow is the least time between two questions to a sampler.
const minFollow = 50 * time.Millisecond

// A name becomes a part of file names and of keys.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// problems collects what is wrong, so that a user sees all of it at once.
type problems struct{ list []error }

func (p *problems) add(format string, args ...any) {
	p.list = append(p.list, fmt.Errorf(format, args...))
}

func (p *problems) name(what, name string) {
	if !nameRule.MatchString(name) {
		p.add("%s: the name %q must consist of letters, digits, '-', '_' and '.'", what, name)
	}
}

func (p *problems) oneOf(what, value string, known []string) {
	if !slices.Contains(known, value) {
		p.add("%s: %q is unknown: there are %s", what, value, strings.Trim(strings.Join(known, ", "), ", "))
	}
}

func (p *problems) allOf(what string, values, known []string) {
	for _, v := range values {
		p.oneOf(what, v, known)
	}
}

func (e *Experiment) validate() error {
	var p problems
	p.name("experiment", e.Name)
	e.validateTracers(&p)
	e.validateWorkloads(&p)
	e.validateLoads(&p)
	e.validateProfiles(&p)
	e.validateRules(&p)
	if len(e.Metrics) == 0 {
		p.add("metrics: name at least one; the first is what a spread is judged by")
	}
	for i, f := range e.Figures {
		what := fmt.Sprintf("figures[%d] (%s)", i, f.ID)
		e.validateSubset(&p, what, f.Where)
		p.oneOf(what+": x", f.X, []string{"rate", "load", "tracer", "workload", "variant", "size", xTime})
		if f.X == "size" {
			e.validateSizes(&p, what, f.Where)
		}
		if (f.X == xTime) != slices.Contains(f.Y, yRates) || f.X == xTime && (len(f.Y) > 1 || f.As != "value" || f.Mean != "" || f.Form == "bar") {
			p.add("%s: x: time goes with y: [rates], as: value and form: line, and y: rates with nothing else", what)
		}
		p.oneOf(what+": as", f.As, []string{"value", "ratio", "added"})
		dims := []string{"", "load", "tracer", "workload"}
		p.oneOf(what+": series", f.Series, dims)
		p.oneOf(what+": panel", f.Panel, dims)
		p.oneOf(what+": mean", f.Mean, []string{"", "load", "workload"})
		p.oneOf(what+": form", f.Form, []string{"", "line", "bar"})
		if len(f.Y) == 0 {
			p.add("%s: y: name at least one metric", what)
		}
	}
	for i, q := range e.Questions {
		for j, c := range q.Claims {
			what := fmt.Sprintf("questions[%d] (%s), claim %d", i, q.ID, j+1)
			e.validateSubset(&p, what, c.Where)
			if c.Say != "" && strings.Count(c.Say, "{}") != 1 {
				p.add("%s: say: %q needs one {}, where the outcome is put", what, c.Say)
			}
			if c.Against != "" {
				p.oneOf(what+": against", c.Against, e.tracerNames())
			}
			p.oneOf(what+": as", c.As, []string{"", "added"})
			if c.As != "" && (c.ShareOfAdded || c.OfWorkloads) {
				p.add("%s: as: a difference is no share: leave out share_of_added and of_workloads", what)
			}
			if c.ShareOfAdded && c.Against == "" {
				p.add("%s: share_of_added: name the tracer in against", what)
			}
			if c.OfWorkloads && (c.Against != "" || c.ShareOfAdded) {
				p.add("%s: of_workloads: compares with nothing", what)
			}
			if c.AtMost < 0 || c.AtLeast < 0 {
				p.add("%s: at_most, at_least: a target is greater than 0", what)
			}
			if c.AtLeast != 0 && (c.ShareOfAdded || c.AtMost != 0) {
				p.add("%s: at_least: give it alone, without at_most or share_of_added", what)
			}
		}
	}
	return errors.Join(p.list...)
}

func (e *Experiment) tracerNames() []string {
	return names(e.Tracers, func(t Tracer) string { return t.Name })
}

func (e *Experiment) workloadNames() []string {
	return names(e.Workloads, func(w Workload) string { return w.Name })
}

func (e *Experiment) loadNames() []string {
	return names(e.Loads, func(l Load) string { return l.Name })
}

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = name(v)
	}
	return out
}

func (p *problems) unique(what string, list []string) {
	for i, n := range list {
		p.name(what, n)
		if slices.Contains(list[:i], n) {
			p.add("%s: %q is there twice", what, n)
		}
	}
}

func (e *Experiment) validateTracers(p *problems) {
	p.unique("tracers", e.tracerNames())
	if len(e.Tracers) == 0 {
		p.add("tracers: there is none; the first is the baseline that all others are compared with")
	}
	for _, t := range e.Tracers {
		what := "tracer " + t.Name
		p.allOf(what+": workloads", t.Workloads, e.workloadNames())
		for i, r := range t.Rates {
			if !(r >= 0 && r <= 1) { // NaN is neither
				p.add("%s: the rate %v is not between 0 and 1", what, r)
			}
			if slices.Contains(t.Rates[:i], r) {
				p.add("%s: the rate %v is there twice", what, r)
			}
		}
		if t.Sampler != "" && !strings.HasPrefix(t.Sampler, "/") {
			p.add("%s: sampler: %q must begin with a slash", what, t.Sampler)
		}
		if f := t.Follow.Std(); f < 0 || f > 0 && (t.Sampler == "" || f < minFollow) {
			p.add("%s: follow: needs sampler, the path to ask at, and at least %s, since asking costs the service something", what, minFollow)
		}
		p.oneOf(what+": collector_fault", string(t.Fault), faults)
		if t.Fault != "" && t.Collector {
			p.add("%s: collector_fault: is about what the tracer itself sends to: leave out collector", what)
		}
		for i, one := range t.Processors {
			if len(one) != 1 {
				p.add("%s: processors[%d]: want one name with its settings, as in - {batch: {}}", what, i)
			}
		}
		if t.Roots < 0 {
			p.add("%s: roots: %d is negative", what, t.Roots)
		}
		if t.Settling < 0 {
			p.add("%s: settling: %d is negative", what, t.Settling)
		}
		rates := make([]string, len(t.Rates))
		for i, r := range t.Rates {
			rates[i] = FormatRate(r)
		}
		for at := range t.At {
			p.oneOf(what+": at", at, rates)
		}
		for at := range t.ExpectAt {
			p.oneOf(what+": expect_at", at, rates)
		}
	}
}

func (e *Experiment) validateWorkloads(p *problems) {
	p.unique("workloads", e.workloadNames())
	if len(e.Workloads) == 0 {
		p.add("workloads: there is none")
	}
	for _, w := range e.Workloads {
		what := "workload " + w.Name
		for key, path := range map[string]string{"path": w.Path, "health": w.Health, "read_back": w.ReadBack, "profile": w.Profile, "metrics": w.Metrics} {
			if path != "" && !strings.HasPrefix(path, "/") {
				p.add("%s: %s: %q must begin with a slash", what, key, path)
			}
		}
		if w.Port < 0 || w.Port > 65535 {
			p.add("%s: port: %d is none", what, w.Port)
		}
		if w.Slow != 0 && w.Metrics == "" {
			p.add("%s: slow: needs metrics, in which the service counts its slow requests", what)
		}
		if !(w.Fails >= 0 && w.Fails < 1) {
			p.add("%s: fails: %v is not a share, from 0 to below 1, of the requests", what, w.Fails)
		}
		if w.Spans < 0 {
			p.add("%s: spans: %d is negative", what, w.Spans)
		}
		if w.Size < 0 || w.Size > MaxSize {
			p.add("%s: size: %d bytes is not between 0 and %d", what, w.Size, MaxSize)
		}
		if w.Size == 0 && (w.Post || strings.Contains(w.Path, sizePlaceholder)) {
			p.add("%s: size: post, and %s in the path, need the payload's size in bytes", what, sizePlaceholder)
		}
	}
}

// MaxSize of a payload in bytes: the load generator holds each body that it sends in memory.
const MaxSize = 64 << 20

// validateSizes asks that an axis of sizes has one workload for each.
func (e *Experiment) validateSizes(p *problems, what string, where Subset) {
	taken := map[int]string{}
	for _, w := range e.Workloads {
		if len(where.Workloads) > 0 && !slices.Contains(where.Workloads, w.Name) {
			continue
		}
		if w.Size == 0 {
			p.add("%s: x: the workload %s has no size: give it one, or leave it out by where", what, w.Name)
		} else if other, ok := taken[w.Size]; ok {
			p.add("%s: x: the workloads %s and %s have the same size: choose one of them by where", what, other, w.Name)
		}
		taken[w.Size] = w.Name
	}
}

func (e *Experiment) validateLoads(p *problems) {
	p.unique("loads", e.loadNames())
	if len(e.Loads) == 0 {
		p.add("loads: there is none")
	}
	for _, l := range e.Loads {
		what := "load " + l.Name
		if !(l.Rate >= 0 && l.Rate <= 10_000_000) {
			p.add("%s: rate: %v requests/s cannot be sent", what, l.Rate)
		}
		if l.Connections < 1 {
			p.add("%s: connections: need at least 1", what)
		}
		if l.OrMost && l.Rate == 0 {
			p.add("%s: or_most needs a rate to begin with", what)
		}
		if !(l.OfMost >= 0 && l.OfMost <= 1) || l.OfMost != 0 && !l.OrMost {
			p.add("%s: of_most: %v is not a share, from 0 to 1, of a rate that or_most finds", what, l.OfMost)
		}
	}
}

func (e *Experiment) validateProfiles(p *problems) {
	if len(e.Profiles) == 0 {
		p.add("profiles: there is none; the usual ones are smoke, quick and full")
	}
	for name, pr := range e.Profiles {
		what := "profile " + name
		p.name("profiles", name)
		if pr.Rounds < 1 && pr.Check == 0 {
			p.add("%s: rounds: need at least 1, or check; below 6 there is no interval worth reading", what)
		}
		for tracer := range pr.EnvOf {
			p.oneOf(what+": env_of", tracer, e.tracerNames())
		}
		for tracer, n := range pr.RoundsOf {
			p.oneOf(what+": rounds_of", tracer, e.tracerNames())
			if n < 1 || pr.Rounds < 1 {
				p.add("%s: rounds_of: %s: need at least 1 round, here and in rounds", what, tracer)
			}
			if len(e.Tracers) > 0 && tracer == e.Baseline() {
				p.add("%s: rounds_of: %s is the baseline, which is in every round: leave it out", what, tracer)
			}
		}
		if pr.Rounds > 0 && pr.Window.Std() < 500*time.Millisecond {
			p.add("%s: window: need at least 500ms, since the kernel counts idle time in steps of 10 ms", what)
		}
		if pr.Profiled > 0 && pr.ProfileWindow.Std() < time.Second {
			p.add("%s: profile_window: need at least 1s: a profile has 100 samples per second and core", what)
		}
		for i, s := range pr.Cells {
			e.validateSubset(p, fmt.Sprintf("%s, cells[%d]", what, i), s)
		}
	}
}

func (e *Experiment) validateSubset(p *problems, what string, s Subset) {
	p.allOf(what+": workloads", s.Workloads, e.workloadNames())
	p.allOf(what+": loads", s.Loads, e.loadNames())
	p.allOf(what+": tracers", s.Tracers, e.tracerNames())
	for name, rates := range s.Rates {
		i := slices.IndexFunc(e.Tracers, func(t Tracer) bool { return t.Name == name })
		if i < 0 {
			p.oneOf(what+": rates", name, e.tracerNames())
			continue
		}
		for _, r := range rates {
			if !slices.Contains(e.Tracers[i].Rates, r) {
				p.add("%s: rates: %s has no rate %v", what, name, r)
			}
		}
	}
}

func (e *Experiment) validateRules(p *problems) {
	r := e.Rules
	for key, v := range map[string]float64{
		"max_error_share": r.ErrorShare, "min_achieved": r.Achieved, "max_spread": r.Spread,
		"max_sampling_error": r.Sampled, "max_count_difference": r.Counted, "max_stolen": r.Stolen,
	} {
		if !(v >= 0) {
			p.add("rules: %s: %v is negative", key, v)
		}
	}
}
