package store

import (
	"cmp"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

// summary makes the trace's line in a list, of everything that is stored of it.
func (v *view) summary(id pcommon.TraceID, places []place) (Summary, error) {
	s := Summary{TraceID: id}
	var from, end uint64
	var best top
	var bestPlace place
	var found verdict
	var sampled weight.Trace
	counts := map[string]*ServiceCount{}
	for i, p := range places {
		part, err := v.part(p)
		if err != nil {
			return s, err
		}
		c, err := v.chunk(p.chunk, nil)
		if err != nil {
			return s, err
		}
		t, err := c.count(part, counts)
		if err != nil {
			return s, err
		}
		if i == 0 || t.above(best) {
			best, bestPlace = t, p
		}
		if i == 0 || part.from < from {
			from = part.from
		}
		end = max(end, part.end)
		found.join(part.verdict)
		sampled.Add(part.weight.Adjusted, t.root, part.weight.Retro)
	}
	for _, n := range counts {
		s.Spans += n.Spans
		s.Errors += n.Errors
		s.Services = append(s.Services, *n)
	}
	slices.SortFunc(s.Services, func(a, b ServiceCount) int {
		return cmp.Or(cmp.Compare(b.Spans, a.Spans), strings.Compare(a.Name, b.Name))
	})
	if s.More = len(s.Services) - MaxServices; s.More > 0 {
		s.Services = slices.Clone(s.Services[:MaxServices])
	} else {
		s.More = 0
	}
	s.Start, s.Duration = timeOf(from), durationOf(end-from)
	s.Root, s.Service = best.name, best.service
	s.State, s.Reason, s.Keep = found.state, found.reason, found.keep
	s.Weight, s.Retro = sampled.Traces(), sampled.Kept()
	if v.lens != nil && v.lens.scope != nil {
		s.Retro &= semconv.RetroKept
		s.Reason, s.Keep = v.lens.scope.disclose(semconv.TraceReason, s.Reason), v.lens.scope.disclose(semconv.KeepReason, s.Keep)
	}
	if len(places) > 0 {
		var err error
		if s.Target, err = v.target(bestPlace, best); err != nil {
			return s, err
		}
	}
	return s, nil
}

// maxTargetBlock is how large a block is, in bytes, that is decompressed for a trace's target. A list does not take longer,
// or more memory, since one of its traces is large.
const maxTargetBlock = 4 << 20

// target is what the top span says that it asked for; "" if that is in a block that is too large.
func (v *view) target(p place, top top) (string, error) {
	c, err := v.chunk(p.chunk, nil)
	if err != nil {
		return "", err
	}
	if size, err := c.blockSize(p.block); err != nil || size > maxTargetBlock {
		return "", err
	}
	groups, record, err := c.spansAt(p)
	if err != nil {
		return "", err
	}
	var t semconv.Target
	at := top.at
	err = eachRun(record, groups, func(_ uint32, spans []byte) error {
		return eachAlong(spans, func(s []byte) error {
			if at--; at != -1 {
				return nil
			}
			return eachAlong(s, func(kv []byte) error {
				key, value, err := keyValue(kv)
				t.Take(string(key), stringValue(value))
				return err
			}, wire.SpanAttribute)
		}, wire.ScopeSpansSpan)
	})
	return t.Beside(top.name), err
}

// top is the top span of a trace, or of what a chunk has of it.
type top struct {
	name, service string
	root          bool
	start         uint64
	at            int // its number among the spans of the part, as they are stored
}

func (t top) above(u top) bool {
	if t.root != u.root {
		return t.root
	}
	return t.start < u.start
}

// count counts the part's spans by service, and returns its top span.
func (c *chunkData) count(p part, counts map[string]*ServiceCount) (t top, err error) {
	names, err := c.dictionary()
	if err != nil {
		return t, err
	}
	ops, err := c.column(colOperation)
	if err != nil {
		return t, err
	}
	flags, err := c.column(colFlags)
	if err != nil {
		return t, err
	}
	start, err := c.column(colStart)
	if err != nil {
		return t, err
	}
	for i := p.first; i < p.first+p.n; i++ {
		o := ops.at(i)
		if o >= uint64(len(names.operations)) {
			return t, corrupt("chunk %d has no operation %d", c.zone.chunk, o)
		}
		op := &names.operations[o]
		name := names.services[op.service]
		n := counts[name]
		if n == nil {
			n = &ServiceCount{Name: name}
			counts[name] = n
		}
		n.Spans++
		if flags.at(i)&flagError != 0 {
			n.Errors++
		}
		if i == p.top {
			t = top{op.name, name, flags.at(i)&flagRoot != 0, c.zone.minStart + start.at(i), c.number(i, p.first)}
		}
	}
	return t, nil
}
