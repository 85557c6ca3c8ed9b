package rootcause

import (
	"strings"

	"github.com/tare-trace/tare/span/route"
)

// maxTargets is how many different targets (paths, queries) an operation may have to be
// told apart by them. The collector names HTTP spans by their routes; other names may be
// no more than a method, and then the target says which operation it is: of a path what
// route.Shape leaves of it. A target may also be different for every request. A longer
// name, such as one with a route, says it already.
const maxTargets = 20

// places gives numbers to places, and decides whether targets belong to them.
type places struct {
	all     []placeTarget
	number  map[placeTarget]int32
	targets map[place]int // how many different ones
}

type placeTarget struct {
	place
	target string
}

func newPlaces() *places {
	return &places{number: map[placeTarget]int32{}, targets: map[place]int{}}
}

// intern returns the number of a place with a target. Beyond maxTargets, new targets share
// the number of the place without one.
func (p *places) intern(at place, target string) int32 {
	if strings.ContainsAny(at.operation, " /") {
		target = ""
	}
	if strings.HasPrefix(target, "/") {
		target = route.Shape(target)
	}
	key := placeTarget{at, target}
	if n, ok := p.number[key]; ok {
		return n
	}
	if target != "" {
		if p.targets[at] > maxTargets {
			return p.intern(at, "")
		}
		p.targets[at]++
	}
	n := int32(len(p.all))
	p.all = append(p.all, key)
	p.number[key] = n
	return n
}

// name is the place as it is shown: with its target where there are few.
func (p *places) name(n int32) place {
	x := p.all[n]
	if x.target != "" && p.targets[x.place] <= maxTargets {
		x.operation = strings.TrimSpace(x.operation + " " + x.target)
	}
	return x.place
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
