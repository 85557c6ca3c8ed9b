package probe

import "github.com/tare-trace/tare/agent/tier"

// Tier is a set of kernel programs that the agent can work with here.
type Tier struct {
	Name    string      `json:"name"` // of package tier, or "none"
	Missing []string    `json:"missing,omitempty"`
	Unknown []string    `json:"unknown,omitempty"` // could not be tried
	Lost    []tier.Loss `json:"lost,omitempty"`    // what it does without
}

// NoTier is the name of the tier of a kernel that has none.
const NoTier = "none"

// Choose picks the best tier of which every part is there; if there is none, it
// tells what the one lacks that is nearest to it. A feature that could not be
// tried counts as absent: the agent could not use it either.
func Choose(r *Report) Tier {
	var nearest Tier
	for i := range tier.All {
		t := judge(r, &tier.All[i])
		if t.lacks() == 0 {
			return t
		}
		if i == 0 || t.lacks() < nearest.lacks() {
			nearest = t
		}
	}
	nearest.Name, nearest.Lost = NoTier, nil
	return nearest
}

func (t *Tier) lacks() int { return len(t.Missing) + len(t.Unknown) }

func judge(r *Report, t *tier.Tier) Tier {
	found := Tier{Name: t.Name}
	for _, name := range t.Requires() {
		switch r.Feature(name).State {
		case Yes:
		case Unknown:
			found.Unknown = append(found.Unknown, name)
		default:
			found.Missing = append(found.Missing, name)
		}
	}
	for _, p := range t.Programs {
		if p.Capability == "" {
			continue
		}
		for _, name := range p.Features() {
			if f := r.Feature(name); f.State != Yes {
				found.Lost = append(found.Lost, p.Lost(name+": "+f.Error))
				break
			}
		}
	}
	return found
}
