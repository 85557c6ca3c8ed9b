package analysis

import (
	"maps"
	"slices"

	"github.com/tare-trace/tare/workloads/planted"
)

// Planted is what reached the store of the values of one kind, or in one place, by variant.
type Planted struct {
	Cell  string        `json:"cell"`
	Group string        `json:"group"` // secrets, places, decoys
	Name  string        `json:"name"`
	Of    []PlantedPart `json:"of"` // by variant, in the order of the experiment
}

// PlantedPart is of all runs of a variant together; Count is zero where nothing of it was planted.
type PlantedPart struct {
	Variant string `json:"variant"`
	planted.Count
}

// plantedIn adds up the planted values of all runs that count.
func plantedIn(a *grid) []Planted {
	var out []Planted
	for _, cell := range a.cellNames {
		p := a.places[cell]
		sums := map[[2]string]map[string]planted.Count{} // by group and name, then by variant
		add := func(group, variant string, counts map[string]planted.Count) {
			for name, c := range counts {
				key := [2]string{group, name}
				if sums[key] == nil {
					sums[key] = map[string]planted.Count{}
				}
				sum := sums[key][variant]
				sums[key][variant] = planted.Count{Planted: sum.Planted + c.Planted, Stored: sum.Stored + c.Stored}
			}
		}
		var variants []string
		for _, name := range p.order {
			b, any := p.variants[name], false
			for _, r := range slices.Concat(b.measured, b.checked) {
				if r.Planted != nil {
					any = true
					add("secrets", name, r.Planted.Secrets)
					add("places", name, r.Planted.Places)
					add("decoys", name, r.Planted.Decoys)
				}
			}
			if any {
				variants = append(variants, name)
			}
		}
		for _, key := range orderOfPlanted(sums) {
			one := Planted{Cell: cell, Group: key[0], Name: key[1]}
			for _, variant := range variants {
				one.Of = append(one.Of, PlantedPart{variant, sums[key][variant]})
			}
			out = append(out, one)
		}
	}
	return out
}

// orderOfPlanted is that of package planted; names that it does not have come last.
func orderOfPlanted(of map[[2]string]map[string]planted.Count) [][2]string {
	var order [][2]string
	add := func(group, name string) {
		if _, ok := of[[2]string{group, name}]; ok {
			order = append(order, [2]string{group, name})
		}
	}
	for _, c := range planted.Secrets {
		add("secrets", c.Name)
	}
	for _, p := range planted.Places {
		add("places", string(p))
	}
	for _, c := range planted.Decoys {
		add("decoys", c.Name)
	}
	rest := slices.SortedFunc(maps.Keys(of), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) })
	return append(order, slices.DeleteFunc(rest, func(key [2]string) bool { return slices.Contains(order, key) })...)
}
