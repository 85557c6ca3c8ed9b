package keepprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// FuzzProcess sends arbitrary OTLP: each span is passed on or counted, all spans of a
// trace are kept or all are dropped, and each kept trace has one reason.
func FuzzProcess(f *testing.F) {
	marshal := func(td ptrace.Traces) []byte {
		b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		require.NoError(f, err)
		return b
	}
	mixed := one(1, request("shop", "GET /")...)
	for i, more := range []ptrace.Traces{one(1<<56-1, change(request("shop", "GET /"), 0, answers("503"))...), lateOf(1), one(7, change(request("a", "b"), 0, incomplete)...)} {
		f.Add(marshal(more), uint8(i))
		more.ResourceSpans().MoveAndAppendTo(mixed.ResourceSpans())
	}
	f.Add(marshal(mixed), uint8(3))
	config := defaultConfig()
	config.Slow.SlowerThan = time.Second
	config.Slow.Learn = Learn{Quantile: 0.5, Operations: 2, After: 1}
	config.Rare = Rare{First: 1, Interval: time.Second, AtMost: 3}
	config.Rules = []Rule{{Name: "G*", Kind: "server", Probability: ptr(0.5)}, {Attributes: map[string]string{"a": "~."}}, {Service: "none", Root: true, Probability: ptr(0.0)}}
	config.Share = Share{Probability: 0.9, TracesPerSecond: 2, Adapt: time.Second}
	config.Remember = 10
	at := newClock()
	k := keeperOf(f, config, at)
	f.Fuzz(func(t *testing.T, b []byte, seconds uint8) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		if err != nil {
			return
		}
		at.advance(time.Duration(seconds) * time.Second)
		came := map[[16]byte]int{}
		whole := map[[16]byte]bool{}
		for s := range spans(td) {
			came[s.TraceID()]++
			v, ok := s.Attributes().Get(semconv.Late)
			whole[s.TraceID()] = whole[s.TraceID()] || !ok || !v.Bool()
			s.Attributes().Remove(semconv.KeepReason)
		}
		n, before := td.SpanCount(), k.counts.spansDropped
		left := decided(t, k, td)
		if got := left.SpanCount() + int(k.counts.spansDropped-before); got != n {
			t.Errorf("%d spans came, %d were handed on or counted", n, got)
		}
		stay, reasons := map[[16]byte]int{}, map[[16]byte]int{}
		for s := range spans(left) {
			stay[s.TraceID()]++
			if _, ok := s.Attributes().Get(semconv.KeepReason); ok {
				reasons[s.TraceID()]++
			}
		}
		for id, n := range stay {
			assert.Equal(t, came[id], n)
			assert.Equal(t, map[bool]int{true: 1}[whole[id]], reasons[id], "spans with a reason")
		}
	})
}
