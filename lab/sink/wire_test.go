package sink

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/wire"
)

func TestCount(t *testing.T) {
	s := keeping(t)
	zero := one(3, 4, 0)
	zero.ParentSpanId = make([]byte, 8) // means none
	zero.Name = "PUT"
	accepted(t, s, body(append(chain(1), one(2, 2, 1))...))
	accepted(t, s, body(zero))
	got, err := s.Count()
	want := Tally{Requests: 2, Spans: 5, Roots: 2, Traces: 3, Rooted: 2, Names: map[string]int{"GET": 4, "PUT": 1}}
	if err != nil || !maps.Equal(got.Names, want.Names) {
		t.Errorf("%v, %v", got.Names, err)
	}
	got.Names, want.Names = nil, nil
	assert.True(t, equalTally(got, want), "%+v, want %+v", got, want)
}

func TestCountOfSlowRoots(t *testing.T) {
	s := keeping(t)
	took := func(sp *trace.Span, d time.Duration) *trace.Span {
		sp.EndTimeUnixNano = sp.GetStartTimeUnixNano() + uint64(d) //nolint:gosec // positive
		return sp
	}
	client := took(one(4, 1, 0), time.Minute)
	client.Kind = trace.Span_SPAN_KIND_CLIENT
	backwards := one(5, 1, 0)
	backwards.EndTimeUnixNano = 1
	accepted(t, s, body(
		took(one(1, 1, 0), time.Second), took(one(1, 2, 1), time.Second), // as long as the limit
		took(one(2, 1, 0), time.Second+1), took(one(2, 1, 0), time.Second+1), // slow, sent twice
		took(one(3, 1, 0), time.Millisecond), took(one(3, 2, 1), time.Minute), // only a child is
		client, backwards,
	))
	if got, err := s.CountSlow(time.Second); err != nil || got.SlowEntries != 1 || got.Entries != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Count(); err != nil || got.SlowEntries != 0 {
		t.Errorf("without a limit: %+v, %v", got, err)
	}
}

func equalTally(a, b Tally) bool {
	return a.Requests == b.Requests && a.Spans == b.Spans && a.Roots == b.Roots && a.Traces == b.Traces &&
		a.Rooted == b.Rooted && a.Invalid == b.Invalid && maps.Equal(a.Names, b.Names)
}

func TestCountBoundsNames(t *testing.T) {
	s := keeping(t)
	spans := make([]*trace.Span, maxNames+10)
	for i := range spans {
		spans[i] = &trace.Span{TraceId: traceID(1), SpanId: binary.BigEndian.AppendUint64(nil, uint64(i+1)), Name: string(rune(i + 0x10000))}
	}
	accepted(t, s, body(spans...))
	if got, err := s.Count(); err != nil || len(got.Names) != maxNames+1 || got.Names[OtherNames] != 10 {
		t.Errorf("%d names, %d of them others, %v", len(got.Names), got.Names[OtherNames], err)
	}
}

func TestTrees(t *testing.T) {
	s := keeping(t)
	well := one(8, 1, 0)
	well.Status = nil
	for n, spans := range [][]*trace.Span{
		chain(1),
		{one(2, 3, 2), one(2, 1, 0), one(2, 2, 1)}, // in another order
		{one(3, 2, 1), one(3, 3, 2)},
		{one(4, 1, 0), one(4, 2, 0), one(4, 3, 2)},
		{one(5, 1, 0), one(5, 3, 2), one(5, 4, 2)},
		{one(6, 1, 0), one(6, 2, 3), one(6, 3, 2)},
		{one(7, 1, 0), one(7, 2, 2), one(7, 3, 1)},
		{well},
		{one(10, 1, 0)}, // failed: nothing more is expected
		{one(9, 1, 0), one(9, 2, 1), one(9, 3, 1), one(9, 4, 1)},
		chain(1), // again
	} {
		if n == 0 { // a trace may come in several requests
			accepted(t, s, body(spans[0]))
			spans = spans[1:]
		}
		accepted(t, s, body(spans...))
	}
	got, err := s.Trees(3)
	require.NoError(t, err)
	want := map[string]int{NoRoot: 1, ManyRoots: 1, OrphanSpans: 1, Cyclic: 2, FewSpans: 1}
	if got.Traces != 10 || got.Complete != 4 || got.Orphans != 3 || got.Duplicates != 3 || got.Spans != 26 || !maps.Equal(got.Incomplete, want) {
		t.Errorf("%+v", got)
	}
	assert.Equal(t, map[int]int{1: 2, 2: 1, 3: 6, 4: 1}, got.Sizes, "sizes")
	assert.Equal(t, 25, got.Of(3), "expected spans: all but the fourth of one trace")
	if got, err = s.Trees(0); err != nil || got.Complete != 5 {
		t.Errorf("of any size: %+v, %v", got, err)
	}
}

// What a service begins by itself, such as a connection pool, is no request.
func TestBackgroundTracesAreNoRequests(t *testing.T) {
	s := keeping(t)
	for n := range uint64(3) {
		spans := chain(n + 1)
		spans[0].Kind = trace.Span_SPAN_KIND_SERVER
		spans[0].Status = &trace.Status{Message: "unset"}
		if n == 1 {
			spans[0].Status.Code = trace.Status_STATUS_CODE_ERROR
		}
		accepted(t, s, body(spans...))
	}
	pool := one(9, 1, 0)
	pool.Kind = trace.Span_SPAN_KIND_CLIENT
	accepted(t, s, body(pool))
	accepted(t, s, body(one(10, 2, 1))) // its root was lost
	trees, err := s.Trees(3)
	if err != nil || trees.Traces != 4 || trees.Complete != 3 || trees.Background != 1 || trees.Incomplete[NoRoot] != 1 {
		t.Errorf("%+v, %v", trees, err)
	}
	tally, err := s.Count()
	if err != nil || tally.Entries != 3 || tally.FailedEntries != 1 || tally.Rooted != 4 || tally.Traces != 5 {
		t.Errorf("%+v, %v", tally, err)
	}
}

// Fields that repeat, are of a wrong type or unknown: as protobuf reads them.
func TestWalkReadsOddMessages(t *testing.T) {
	sp := []byte{1<<3 | byte(protowire.VarintType), 7} // the trace id's number, of a wrong type: skipped
	sp = protowire.AppendTag(sp, 77, protowire.StartGroupType)
	sp = protowire.AppendTag(sp, 77, protowire.EndGroupType)
	for _, id := range [][]byte{traceID(1), traceID(2)} { // the last one holds
		sp = wire.AppendBytes(sp, wire.SpanTraceID, id)
	}
	b := sp
	for _, tag := range []byte{wire.ScopeSpansSpan, wire.ResourceSpansScope, wire.TracesResourceSpans} {
		b = wire.AppendBytes(nil, tag, b)
	}
	var got [][]byte
	require.NoError(t, walk(b, func(w *wireSpan) { got = append(got, bytes.Clone(w.trace)) }))
	if len(got) != 1 || !bytes.Equal(got[0], traceID(2)) {
		t.Errorf("%x", got)
	}
}

// Whatever protobuf reads, walk reads to the same effect; whatever it does not
// read must not make walk panic.
func FuzzWalk(f *testing.F) {
	f.Add([]byte{})
	f.Add(body(chain(1)...))
	f.Add(append(body(chain(1)...), body(one(2, 2, 1))...))
	failed := one(3, 1, 0)
	failed.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
	f.Add(body(failed))
	f.Add([]byte{0x0a, 0x02, 0x12, 0x05})
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got []wireSpan
		err := walk(b, func(w *wireSpan) { got = append(got, *w) })
		var req collector.ExportTraceServiceRequest
		if protoErr := proto.Unmarshal(b, &req); protoErr != nil {
			return
		}
		require.NoError(t, err, "protobuf reads what walk does not")
		require.NoError(t, checkTop(b), "refused at the door")
		var want []wireSpan
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					want = append(want, wireSpan{s.GetTraceId(), s.GetSpanId(), s.GetParentSpanId(), []byte(s.GetName()), uint64(s.GetKind()), s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano(), s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR}) //nolint:gosec // compared as int32
				}
			}
		}
		same := func(a, b wireSpan) bool {
			return bytes.Equal(a.trace, b.trace) && bytes.Equal(a.id, b.id) && bytes.Equal(a.parent, b.parent) && bytes.Equal(a.name, b.name) &&
				a.failed == b.failed && a.start == b.start && a.end == b.end &&
				int32(a.kind) == int32(b.kind) //nolint:gosec // an enumeration of protobuf's
		}
		require.True(t, slices.EqualFunc(got, want, same), "walk %+v, protobuf %+v", got, want)
	})
}

// The file is ours, but another process may have written to it.
func FuzzRecords(f *testing.F) {
	record := func(b []byte, zipped byte) []byte {
		return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), zipped), b...)
	}
	f.Add(append(record(body(chain(1)...), 0), record(zip(body(chain(2)...)), 1)...))
	f.Add(record([]byte("hello"), 1))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{4, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := recordReader{in: bytes.NewReader(b)}
		for read := 0; ; read++ {
			out, err := r.next()
			if err == io.EOF { //nolint:errorlint // it must be that and nothing around it
				break
			}
			if err != nil {
				return
			}
			if len(out) > MaxBody || read > len(b)/recordHead {
				t.Fatalf("record %d has %d bytes", read, len(out))
			}
		}
	})
}

// inspect sees what any client sends.
func FuzzInspect(f *testing.F) {
	f.Add("application/x-protobuf", "gzip", zip(body(chain(1)...)))
	f.Add("application/x-protobuf", "", body(chain(1)...))
	f.Add("application/x-protobuf;x=y", "identity", []byte("x"))
	f.Fuzz(func(t *testing.T, contentType, encoding string, b []byte) {
		h := map[string][]string{"Content-Type": {contentType}, "Content-Encoding": {encoding}}
		if _, plain, err := inspect(h, b); plain < 0 || plain > max(MaxBody, len(b)) {
			t.Errorf("%d bytes after decompression, %v", plain, err)
		}
	})
}
