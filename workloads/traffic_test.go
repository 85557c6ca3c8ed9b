package workloads

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp/otlptest"
)

// Every trace that begins with a body is whole with the next one, and no id
// comes twice.
func TestTrafficMakesWholeTraces(t *testing.T) {
	gen := newTraffic()
	type trace struct {
		spans map[span.ID]span.Span
		roots int
		first uint64
	}
	traces := map[span.TraceID]*trace{}
	const bodies = 6
	for n := uint64(1); n <= bodies; n++ {
		spans, err := otlptest.Decode(gen.AppendBody([]byte("head"), n)[4:])
		require.NoError(t, err)
		require.Len(t, spans, SpansPerBody, "spans")
		for _, s := range spans {
			tr := traces[s.TraceID]
			if tr == nil {
				tr = &trace{spans: map[span.ID]span.Span{}, first: n}
				traces[s.TraceID] = tr
			}
			if _, twice := tr.spans[s.ID]; twice {
				t.Fatalf("span id %v twice in a trace", s.ID)
			}
			if s.End <= s.Start || s.Start < 1e18 {
				t.Fatalf("span from %d to %d", s.Start, s.End)
			}
			tr.spans[s.ID] = s
			if s.Parent.IsZero() {
				tr.roots++
			}
		}
	}
	whole := 0
	for id, tr := range traces {
		if len(tr.spans) != SpansPerTrace {
			continue
		}
		whole++
		if tr.roots != 1 {
			t.Fatalf("trace %v has %d roots", id, tr.roots)
		}
		for _, s := range tr.spans {
			if _, ok := tr.spans[s.Parent]; !ok && !s.Parent.IsZero() {
				t.Fatalf("trace %v: the parent of %v is missing", id, s.ID)
			}
		}
	}
	assert.Equal(t, (bodies-1)*TracesPerBody, whole, "whole traces")
}

func TestTrafficAllocatesNothing(t *testing.T) {
	gen := newTraffic()
	buf := make([]byte, 0, len(gen.template))
	assert.Zero(t, testing.AllocsPerRun(100, func() { buf = gen.AppendBody(buf[:0], 7) }), "allocations")
}

func BenchmarkTraffic(b *testing.B) {
	gen := newTraffic()
	var buf []byte
	b.SetBytes(int64(len(gen.template)))
	for n := uint64(0); b.Loop(); n++ {
		buf = gen.AppendBody(buf[:0], n)
	}
}
