package profile

import (
	"cmp"
	"slices"
	"time"
)

// Package is what the functions of a package used themselves.
type Package struct {
	Path   string // "" for what is no Go function
	Base   float64
	With   float64
	Micros float64 // With − Base, all in µs per request
}

// TopAdded lists the n packages whose own functions (not what these called) use
// most more CPU time per request in the variant than in the baseline, the greatest
// first; only those that use more. Without requests on one side: nil.
func TopAdded(base *Profile, baseRequests uint64, variant *Profile, variantRequests uint64, n int) []Package {
	if baseRequests == 0 || variantRequests == 0 {
		return nil
	}
	all := map[string]*Package{}
	at := func(path string) *Package {
		if all[path] == nil {
			all[path] = &Package{Path: path}
		}
		return all[path]
	}
	for path, d := range base.flat() {
		at(path).Base = micros(d, baseRequests)
	}
	for path, d := range variant.flat() {
		at(path).With = micros(d, variantRequests)
	}
	var top []Package
	for _, p := range all {
		if p.Micros = p.With - p.Base; p.Micros > 0 {
			top = append(top, *p)
		}
	}
	slices.SortFunc(top, func(a, b Package) int {
		return cmp.Or(cmp.Compare(b.Micros, a.Micros), cmp.Compare(a.Path, b.Path))
	})
	return top[:min(max(n, 0), len(top))]
}

// flat sums the samples by the package of their leaf.
func (p *Profile) flat() map[string]time.Duration {
	sums := map[string]time.Duration{}
	for _, s := range p.raw.Sample {
		path := ""
		if names := stack(s); len(names) > 0 {
			path, _ = split(names[0])
		}
		sums[path] += p.cpu(s)
	}
	return sums
}
