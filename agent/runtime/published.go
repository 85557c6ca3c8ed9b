package runtime

import (
	"errors"
	"fmt"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/sdk"
	"github.com/tare-trace/tare/bpf"
)

// publishers is the kernel side's map of where SDKs publish which span is current;
// bpf/published.bpf.h.
const publishers = "publishers"

// LookPublished tells the kernel side where an SDK in a process publishes which span is
// current, whatever the process's runtime. Its error is why that cannot be read.
func LookPublished(p *Process, m Maps) (found bool, err error) {
	v, err := readOf(p, func(a *reading.Account) (native.Variable, error) { return sdk.Read(p.Dir, a) })
	if errors.Is(err, sdk.ErrAbsent) {
		return false, DetachPublished(p.PID, m) // its library may be gone
	}
	to := bpf.Publisher{Module: v.Module}
	if len(v.Path) > bpf.PublisherPath {
		err = fmt.Errorf("a path of %d loads", len(v.Path))
	}
	if err != nil {
		return false, errors.Join(err, DetachPublished(p.PID, m))
	}
	to.Record.N = uint32(copy(to.Record.At[:], v.Path)) //nolint:gosec // a few
	return true, m.Put(publishers, uint32(p.PID), to)
}

// DetachPublished takes it back.
func DetachPublished(pid int, m Maps) error { return m.Delete(publishers, uint32(pid)) }
