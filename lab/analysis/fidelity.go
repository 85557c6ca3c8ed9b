package analysis

import (
	"math"

	"github.com/tare-trace/tare/lab/record"
)

// fidelities adds up the traces of all runs of a variant that hold any.
func fidelities(a *grid) []Fidelity {
	var out []Fidelity
	for _, cell := range a.cellNames {
		p := a.places[cell]
		for _, name := range p.order {
			b := p.variants[name]
			f := Fidelity{Cell: cell, Variant: name, Classes: map[string]int{}}
			for _, runs := range [][]*record.Run{b.measured, b.profiled, b.checked} {
				for _, r := range runs {
					f.add(r)
				}
			}
			if f.Traces == 0 {
				continue
			}
			f.Complete = proportion(f.Classes[record.FidelityComplete], f.Traces)
			f.Wrong = proportion(f.Classes[record.FidelityWrong], f.Traces)
			out = append(out, f)
		}
	}
	return out
}

func (f *Fidelity) add(r *record.Run) {
	if len(r.Fidelity) == 0 {
		return
	}
	f.Runs++
	if l := r.Links; l != nil {
		f.Links.Calls, f.Links.Linked, f.Links.Wrong = f.Links.Calls+l.Calls, f.Links.Linked+l.Linked, f.Links.Wrong+l.Wrong
	}
	for class, n := range r.Fidelity {
		f.Classes[class] += n
	}
	f.Traces += r.Traces()
}

// part is what a metric counts of the traces or calls.
func (f *Fidelity) part(metric string) (p Proportion, ok bool) {
	l := f.Links
	switch {
	case metric == record.Complete:
		return f.Complete, true
	case metric == record.Wrong:
		return f.Wrong, true
	case l.Calls == 0:
		return Proportion{}, false
	case metric == record.LinkedShare:
		return proportion(l.Linked, l.Calls), true
	case metric == record.UnlinkedShare:
		return proportion(l.Calls-l.Linked-l.Wrong, l.Calls), true
	case metric == record.WrongCalls:
		return proportion(l.Wrong, l.Calls), true
	}
	return Proportion{}, false
}

// proportion with the interval of Wilson (1927), which holds its level where the
// share is 0 or 1, unlike the normal approximation. It takes the traces for
// independent: where losses come in bursts it is too narrow.
func proportion(k, n int) Proportion {
	const z = 1.959963984540054 // of the normal distribution, 97.5%
	share, size := float64(k)/float64(n), float64(n)
	middle := (share + z*z/(2*size)) / (1 + z*z/size)
	half := z / (1 + z*z/size) * math.Sqrt(share*(1-share)/size+z*z/(4*size*size))
	p := Proportion{Share: share, Lo: max(0, middle-half), Hi: min(1, middle+half), N: n}
	// Rounding must not exclude the share itself.
	p.Lo, p.Hi = min(p.Lo, share), max(p.Hi, share)
	return p
}
