package kernel

import (
	"fmt"
	"time"

	"github.com/tare-trace/tare/bpf"
)

// Weight is what the hooks on a service's sockets took while they were timed, since
// the service got its index; that of index 0 is what they took on sockets that are
// not traced, with what is called for sockets of all kinds.
type Weight struct {
	Time     time.Duration
	Sampled  time.Duration // of it, for requests that are sampled
	Runs     uint64
	Requests uint64 // that the service received, sampled or not
}

// Weigh lets hooks be timed, or ends that. Meanwhile each run reads the clock three times.
func (t *Tracer) Weigh(on bool) error {
	if err := t.objs.Weighing.Set(on); err != nil {
		return fmt.Errorf("time the hooks: %w", err)
	}
	return nil
}

// Weight reads what was timed of a service's index.
func (t *Tracer) Weight(index uint16) (Weight, error) {
	var s bpf.TareServiceState
	if err := t.objs.Services.Lookup(uint32(index), &s); err != nil {
		return Weight{}, fmt.Errorf("read the weight of a service: %w", err)
	}
	return Weight{time.Duration(s.Weight.Ns), time.Duration(s.Weight.SampledNs), s.Weight.Runs, s.Weight.Requests}, nil
}
