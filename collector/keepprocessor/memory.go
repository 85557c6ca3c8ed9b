package keepprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/otel/consistent"
)

// memory remembers decisions for late spans. It consists of two halves; when the younger
// is full, the older is emptied and takes its place. It is not safe for concurrent use.
type memory struct {
	half         int
	young, older map[pcommon.TraceID]consistent.Threshold
}

func newMemory(decisions int) memory {
	return memory{half: (decisions + 1) / 2, young: map[pcommon.TraceID]consistent.Threshold{}}
}

// put remembers the threshold of a trace: [consistent.Always] if it was not raised,
// [consistent.Never] if the trace was dropped.
func (m *memory) put(id pcommon.TraceID, th consistent.Threshold) {
	if m.half == 0 {
		return
	}
	if len(m.young) >= m.half {
		m.young, m.older = m.older, m.young
		clear(m.young)
		if m.young == nil {
			m.young = make(map[pcommon.TraceID]consistent.Threshold, m.half)
		}
	}
	m.young[id] = th
}

func (m *memory) get(id pcommon.TraceID) (consistent.Threshold, bool) {
	th, ok := m.young[id]
	if !ok {
		th, ok = m.older[id]
	}
	return th, ok
}
