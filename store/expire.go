package store

import (
	"context"
	"errors"
	"time"
)

// ruled is the part of a chunk that is of one service with a retention of its own.
type ruled struct {
	service  string
	spans    uint64
	min, max uint64 // ages of the oldest and the newest count from these times, ns
}

// shortest is the shortest age that spans of any service are kept; 0: no limit.
func (o *Options) shortest() time.Duration {
	shortest := o.MaxAge
	for _, age := range o.Services {
		if shortest == 0 || age < shortest {
			shortest = age
		}
	}
	return shortest
}

// expireServices removes from the disk what has expired by the retention of its service: from a chunk all of it at
// once, when its newest span has. Queries leave the spans out before.
func (s *Store) expireServices(ctx context.Context, now time.Time) error {
	if len(s.opt.Services) == 0 {
		return nil
	}
	l := &lens{rules: s.rules(now)}
	chunks, err := s.findRuled()
	if err != nil {
		return err
	}
	var expired, overdue uint64
	for _, z := range chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		parts, due := s.ruled[z.chunk], false
		spans := uint64(0)
		for _, p := range parts {
			limit := l.limit(p.service)
			due = due || p.max < limit
			if p.min < limit {
				spans += p.spans
			}
		}
		overdue += spans
		if !due || s.damage.has(z.chunk) {
			continue
		}
		n, err := s.removeExpired(z, l, parts)
		if err != nil {
			return err
		}
		expired, overdue = expired+n, overdue-min(overdue, n)
		if n > 0 {
			if err := s.free(ctx, []*zone{z}); err != nil {
				return err
			}
		}
	}
	s.overdue.Store(overdue)
	if expired > 0 {
		s.log.Info("store: removed what is too old", "reason", "service", "spans", expired)
	}
	return nil
}

// removeExpired removes the expired spans of the parts from a chunk, and returns how many there were.
func (s *Store) removeExpired(z *zone, l *lens, parts []ruled) (uint64, error) {
	all := uint64(0)
	for _, p := range parts {
		if p.max < l.limit(p.service) {
			all += p.spans
		}
	}
	if all >= uint64(z.spans) {
		return uint64(z.spans), s.removeChunk(z)
	}
	n, err := s.rewrite([]*zone{z}, l.rules)
	s.expired.Add(n)
	return n, err
}

// findRuled looks at the chunks that are new, and returns those that have spans of services with a retention of
// their own.
func (s *Store) findRuled() (list []*zone, err error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	known := s.ruled
	s.ruled = make(map[uint64][]ruled, len(known))
	l := &lens{rules: s.rules(s.now())}
	for i, z := range v.chunks {
		parts, ok := known[z.chunk]
		if !ok {
			parts, err = v.ruledOf(z, l)
			if err := v.skip(z, err); err != nil {
				// What has not been looked at is, the next time.
				for _, z := range v.chunks[i:] {
					if parts, ok := known[z.chunk]; ok {
						s.ruled[z.chunk] = parts
					}
				}
				return nil, err
			}
		}
		if s.ruled[z.chunk] = parts; len(parts) > 0 {
			list = append(list, z)
		}
	}
	return list, nil
}

func (v *view) ruledOf(z *zone, l *lens) ([]ruled, error) {
	c, err := v.chunk(z.chunk, z)
	if err != nil {
		return nil, err
	}
	names, err := c.dictionary()
	if err != nil {
		return nil, err
	}
	var parts []ruled
	part := make([]int, len(names.services)) // 1 + index into parts; 0: none
	for i, name := range names.services {
		if l.limit(name) > 0 {
			parts = append(parts, ruled{service: name, min: never})
			part[i] = len(parts)
		}
	}
	if len(parts) == 0 {
		return nil, v.drop(c)
	}
	ops, err := c.column(colOperation)
	if err != nil {
		return nil, err
	}
	start, err := c.column(colStart)
	if err != nil {
		return nil, err
	}
	for i := range int(z.spans) {
		o := ops.at(i)
		if o >= uint64(len(names.operations)) {
			return nil, corrupt("chunk %d has no operation %d", z.chunk, o)
		}
		if n := part[names.operations[o].service]; n > 0 {
			p, at := &parts[n-1], min(z.minStart+start.at(i), z.written)
			p.spans++
			p.min, p.max = min(p.min, at), max(p.max, at)
		}
	}
	// A service may be named without a span of it, as whom another called.
	kept := parts[:0]
	for _, p := range parts {
		if p.spans > 0 {
			kept = append(kept, p)
		}
	}
	return kept, v.drop(c)
}
