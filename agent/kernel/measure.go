package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/tare-trace/tare/bpf"
)

// Measured is what was measured of requests that are alike, since the programs
// were loaded. Its counts only grow.
type Measured struct {
	Key bpf.MeasureKey
	// Other means that there was no room for more kinds: of Key only role and
	// outcome count.
	Other bool
	bpf.Measure
}

// Measures lists what was measured of all requests, in no order. It is empty
// unless Options.Metrics is set. It costs two system calls per entry: it is
// for a scrape, not for a loop.
func (t *Tracer) Measures() ([]Measured, error) {
	var list []Measured
	var key bpf.MeasureKey
	var perCPU []bpf.Measure
	each := t.objs.Measures.Iterate()
	for each.Next(&key, &perCPU) {
		list = append(list, Measured{Key: key, Measure: sum(perCPU)})
	}
	if err := each.Err(); err != nil {
		return nil, fmt.Errorf("read what was measured: %w", err)
	}
	outcomes := uint32(bpf.TareOutcomeTARE_OUTCOMES)
	for i := range t.objs.MeasuresOther.MaxEntries() {
		if err := t.objs.MeasuresOther.Lookup(i, &perCPU); err != nil {
			return nil, fmt.Errorf("read what was measured: %w", err)
		}
		m := Measured{Other: true, Measure: sum(perCPU)}
		m.Key.Role, m.Key.Outcome = uint8(bpf.TareRoleTARE_SERVER), uint8(i%outcomes)
		if i >= outcomes {
			m.Key.Role = uint8(bpf.TareRoleTARE_CLIENT)
		}
		if m.Count() > 0 {
			list = append(list, m)
		}
	}
	return list, nil
}

// Count is how many requests were measured.
func (m *Measured) Count() (n uint64) {
	for _, b := range m.Bucket {
		n += b
	}
	return n
}

func sum(perCPU []bpf.Measure) (s bpf.Measure) {
	for i := range perCPU {
		s.Sum += perCPU[i].Sum
		for j, n := range perCPU[i].Bucket {
			s.Bucket[j] += n
		}
	}
	return s
}

// DropMeasures forgets what was measured under these keys. What is measured
// meanwhile may be lost: it is for services and peers that have ended.
func (t *Tracer) DropMeasures(keys []bpf.MeasureKey) error {
	for i := range keys {
		if err := remove(t.objs.Measures, keys[i]); err != nil {
			return err
		}
	}
	return nil
}

// Listeners are the ports on which traced services listen or have listened
// lately, by network namespace.
func (t *Tracer) Listeners() (map[bpf.PortKey]bpf.Service, error) {
	found, err := entries[bpf.PortKey, bpf.Service](t.objs.Listeners)
	// An entry that goes while it is looked at ends the walk early: the next
	// scrape finds the rest.
	if errors.Is(err, ebpf.ErrIterationAborted) {
		err = nil
	}
	return found, err
}
