package bench

import (
	"testing"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/sink"
)

// A reason that is named as a count of spans would take its traces off the whole,
// and a tracer that loses parents would look complete.
func TestReasonsOfTheSinkCountAsTraces(t *testing.T) {
	for _, reason := range []string{sink.NoRoot, sink.ManyRoots, sink.OrphanSpans, sink.Cyclic, sink.FewSpans} {
		if !record.CountsTraces(reason) || reason == record.FidelityComplete || reason == record.FidelityWrong {
			t.Errorf("%q is a reason of the sink's and a key of its own", reason)
		}
	}
}
