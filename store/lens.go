package store

import (
	"context"
	"slices"
	"time"
)

// lens is what a view leaves out of what is stored: spans beyond the retention of their service, and those
// that the reader's scope does not allow. A chunk that has such spans is read as a projection (project.go),
// in which they do not exist, so that no query has to know about them.
type lens struct {
	scope *Scope // nil: everything
	rules []rule
}

// rule is the retention of some services, at the time of a query.
type rule struct {
	services []string // parts of a pattern
	limit    uint64   // spans that are older have expired, ns
}

// lens returns what queries leave out at the time; nil: nothing.
func (s *Store) lens(ctx context.Context, now time.Time) *lens {
	l := &lens{scope: ScopeOf(ctx), rules: s.rules(now)}
	if l.scope == nil && len(l.rules) == 0 {
		return nil
	}
	return l
}

func (s *Store) rules(now time.Time) []rule {
	rules := make([]rule, 0, len(s.opt.Services))
	for p, age := range s.opt.Services {
		rules = append(rules, rule{pattern(p), uint64(max(now.Add(-age).UnixNano(), 0))})
	}
	return rules
}

// limit is the time before which spans of the service have expired, by the strictest of the rules; 0: never.
func (l *lens) limit(service string) uint64 {
	limit := uint64(0)
	for _, r := range l.rules {
		if r.limit > limit && like(r.services, service) {
			limit = r.limit
		}
	}
	return limit
}

// focus makes the chunk a projection, if the lens leaves out spans of it.
func (c *chunkData) focus(l *lens) error {
	if l == nil || c.focused {
		return nil
	}
	keep, some, err := l.keep(c)
	if err == nil && some {
		err = c.project(l, keep)
	}
	c.focused = err == nil
	return err
}

// keep says which spans of the chunk are seen; some reports whether there are others. Without some, keep is nil.
func (l *lens) keep(c *chunkData) (keep []bool, some bool, err error) {
	names, err := c.dictionary()
	if err != nil {
		return nil, false, err
	}
	// By service: since when its spans are seen, never, or depending on the resource.
	limits := make([]uint64, len(names.services))
	groups, err := l.groups(c)
	if err != nil {
		return nil, false, err
	}
	oldest := min(c.zone.minStart, c.zone.written)
	for i, name := range names.services {
		switch limits[i] = l.limit(name); {
		case l.scope != nil && !l.scope.Service(name):
			limits[i], some = never, true
		case limits[i] > oldest:
			some = true
		}
	}
	hidden := slices.Contains(groups, false)
	if !some && !hidden {
		return nil, false, nil
	}
	ops, err := c.column(colOperation)
	if err != nil {
		return nil, false, err
	}
	start, err := c.column(colStart)
	if err != nil {
		return nil, false, err
	}
	keep = make([]bool, c.zone.spans)
	some = false
	for i := range keep {
		o := ops.at(i)
		if o >= uint64(len(names.operations)) {
			return nil, false, corrupt("chunk %d has no operation %d", c.zone.chunk, o)
		}
		limit := limits[names.operations[o].service]
		keep[i] = limit == 0 || limit != never && min(c.zone.minStart+start.at(i), c.zone.written) >= limit
		some = some || !keep[i]
	}
	if hidden {
		err = c.eachGroup(func(i int, g uint32) {
			keep[i] = keep[i] && groups[g]
			some = some || !keep[i]
		})
	}
	return keep, some, err
}

// never is a limit before which all times are.
const never = 1<<64 - 1

// groups says of which resources and scopes of the chunk spans are seen, if names of services do not.
func (l *lens) groups(c *chunkData) ([]bool, error) {
	if l.scope == nil || !l.scope.byResource() {
		return nil, nil
	}
	groups, err := c.resources()
	if err != nil {
		return nil, err
	}
	seen := make([]bool, len(groups))
	for i, g := range groups {
		id, err := identityOf(g.resource)
		if err != nil {
			return nil, err
		}
		seen[i] = l.scope.Sees(id.service, id.namespace, id.environment)
	}
	return seen, nil
}

// eachGroup calls f for every span of the chunk with the index of its resource and scope.
func (c *chunkData) eachGroup(f func(i int, g uint32)) error {
	groups, err := c.resources()
	if err != nil {
		return err
	}
	table, err := c.traceTable()
	if err != nil {
		return err
	}
	i, spans := 0, int(c.zone.spans)
	for t := range int(c.zone.traces) {
		record, err := c.record(table.place(t))
		if err != nil {
			return err
		}
		err = eachRun(record, groups, func(g uint32, run []byte) error {
			return eachSpan(run, func([]byte, []byte) error {
				if i >= spans {
					return corrupt("chunk %d has more spans than it says", c.zone.chunk)
				}
				f(i, g)
				i++
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	if i != spans {
		return corrupt("chunk %d has fewer spans than it says", c.zone.chunk)
	}
	return nil
}
