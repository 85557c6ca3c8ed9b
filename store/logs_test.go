package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// records are n log records of each of the traces, interleaved, of two services and scopes.
func records(n int, traces ...byte) plog.Logs {
	ld := plog.NewLogs()
	for i := range n {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", fmt.Sprint("service", i%2))
		sl := rl.ScopeLogs().AppendEmpty()
		sl.Scope().SetName(fmt.Sprint("scope", i%3))
		for _, id := range traces {
			r := sl.LogRecords().AppendEmpty()
			if id != 0 {
				r.SetTraceID(pcommon.TraceID{id})
			}
			r.SetSpanID(pcommon.SpanID{byte(i)})
			r.Body().SetStr(fmt.Sprintf("%d of %d", i, id))
		}
	}
	return ld
}

func writeLogs(t testing.TB, s *Store, ld plog.Logs) {
	t.Helper()
	if err := s.WriteLogs(context.Background(), ld); err != nil {
		t.Fatal(err)
	}
}

// bodies are those of a trace's records, with who sent them.
func bodies(t testing.TB, s *Store, id byte) (out []string) {
	t.Helper()
	ld, err := s.Logs(context.Background(), pcommon.TraceID{id})
	if err != nil {
		t.Fatal(err)
	}
	for _, rl := range ld.ResourceLogs().All() {
		service, _ := rl.Resource().Attributes().Get("service.name")
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				if r.TraceID() != (pcommon.TraceID{id}) {
					t.Errorf("a record of %v", r.TraceID())
				}
				out = append(out, service.Str()+" "+sl.Scope().Name()+" "+r.Body().Str())
			}
		}
	}
	return out
}

// Records are found by their trace, in order, whole, after the store was closed and opened again too.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, byHand: true})
	writeLogs(t, s, records(3, 1, 0, 2))
	writeLogs(t, s, records(1, 2))
	check := func(s *Store) {
		t.Helper()
		if got, want := strings.Join(bodies(t, s, 2), ", "), "service0 scope0 0 of 2, service1 scope1 1 of 2, service0 scope2 2 of 2, service0 scope0 0 of 2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := bodies(t, s, 3); got != nil {
			t.Errorf("of a trace without records: %v", got)
		}
	}
	check(s)
	st := s.LogStats()
	if st.Records != 7 || st.Written != 7 || st.NoTrace != 3 || st.Bytes == 0 {
		t.Errorf("%+v", st)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteLogs(context.Background(), records(1, 1)); !errors.Is(err, ErrClosed) || s.LogStats().Refused != 1 {
		t.Errorf("of a closed store: %v", err)
	}
	s = open(t, Options{Dir: dir, byHand: true})
	check(s)
	if got := s.LogStats(); got.Records != st.Records || got.Bytes != st.Bytes {
		t.Errorf("opened again: %+v, before %+v", got, st)
	}
}

// A trace has so many records and no more, whatever writes they come in; the first stay.
func TestLogsOfATraceAreBounded(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	for range 3 {
		writeLogs(t, s, records(400, 1, 2))
	}
	writeLogs(t, s, records(1, 1))
	got := bodies(t, s, 1)
	if len(got) != MaxTraceLogs || !strings.HasSuffix(got[999], " 199 of 1") {
		t.Errorf("%d records, the last is %s", len(got), got[len(got)-1])
	}
	if st := s.LogStats(); st.Records != 2*MaxTraceLogs || st.TraceFull != 401 {
		t.Errorf("%+v", st)
	}
}

func TestLargeLogsAreDropped(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	ld := records(2, 1)
	ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body().SetStr(strings.Repeat("x", maxLogRecord))
	writeLogs(t, s, ld)
	resource := records(1, 2)
	resource.ResourceLogs().At(0).Resource().Attributes().PutStr("x", strings.Repeat("x", maxTraceBytes))
	writeLogs(t, s, resource)
	if st := s.LogStats(); st.Records != 1 || st.TooLarge != 1 || st.TraceFull != 1 || len(bodies(t, s, 1)) != 1 || len(bodies(t, s, 2)) != 0 {
		t.Errorf("%+v", st)
	}
}

// The records of a trace have a bound of bytes, too, over all writes; those that fit are taken.
func TestLogBytesOfATraceAreBounded(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	for range 5 {
		ld := plog.NewLogs()
		list := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		for range 4 {
			r := list.AppendEmpty()
			r.SetTraceID(pcommon.TraceID{1})
			r.Body().SetStr(strings.Repeat("x", maxLogRecord-100))
		}
		writeLogs(t, s, ld)
	}
	ld, err := s.Logs(context.Background(), pcommon.TraceID{1})
	if err != nil {
		t.Fatal(err)
	}
	if size := (&plog.ProtoMarshaler{}).LogsSize(ld); size > maxTraceBytes || size < maxTraceBytes-2*maxLogRecord {
		t.Errorf("%d bytes", size)
	}
	if st := s.LogStats(); st.Records+st.TraceFull != 20 || st.TraceFull < 4 {
		t.Errorf("%+v", st)
	}
}

// noisyLog is a record that does not compress.
func noisyLog(r *rand.Rand, id byte, size int) plog.Logs {
	ld := records(1, id)
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().PutEmptyBytes("noise").FromRaw(b)
	return ld
}

// All records together stay below the bound: the oldest are removed, and counted.
func TestLogsAreBounded(t *testing.T) {
	const limit = 4 << 20
	s := open(t, Options{NoSync: true, byHand: true, MaxLogBytes: limit})
	r := rand.New(rand.NewPCG(1, 1))
	ctx := context.Background()
	for i := range 120 {
		writeLogs(t, s, noisyLog(r, byte(i+1), 60_000))
		if err := s.expire(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		if st := s.LogStats(); st.Bytes > limit || i > 80 && st.Bytes < limit*3/4 {
			t.Fatalf("after %d writes: %+v", i, st)
		}
	}
	st := s.LogStats()
	if st.Records+st.Evicted != 120 || st.Evicted == 0 || st.Expired != 0 {
		t.Errorf("%+v", st)
	}
	if len(bodies(t, s, 1)) != 0 || len(bodies(t, s, 120)) != 1 {
		t.Error("it is not the oldest that is gone")
	}
}

// Records go by the age of the spans, and with them where those go by size.
func TestLogsExpire(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true, MaxAge: time.Hour})
	ctx := context.Background()
	writeLogs(t, s, records(2, 1))
	now := time.Now()
	if err := s.expire(ctx, now.Add(59*time.Minute)); err != nil || len(bodies(t, s, 1)) != 2 {
		t.Errorf("too early: %v", err)
	}
	if err := s.expire(ctx, now.Add(time.Hour+time.Second)); err != nil || len(bodies(t, s, 1)) != 0 {
		t.Errorf("too late: %v", err)
	}
	if st := s.LogStats(); st.Expired != 2 || st.Records != 0 || st.Bytes != 0 {
		t.Errorf("%+v", st)
	}

	s = open(t, Options{NoSync: true, byHand: true, MaxLogBytes: 1 << 20})
	r := rand.New(rand.NewPCG(1, 1))
	for i := range byte(3) {
		writeLogs(t, s, noisyLog(r, i+1, 60_000)) // a segment is full after two
		write(t, s, shop(int(i), 1))
	}
	if err := s.removeChunk(s.list()[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.removeChunk(s.list()[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.expire(ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if st := s.LogStats(); st.Expired != 2 || len(bodies(t, s, 3)) != 1 {
		t.Errorf("%+v", st)
	}
}

// Damaged records are an error beside those that can be read, and spans are read as before.
func TestLogsDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, byHand: true})
	writeLogs(t, s, records(1, 1))
	write(t, s, shop(0, 1))
	for key, value := range map[string][]byte{string(logKey(0, pcommon.TraceID{1}, 2)): []byte("\xff\xff\xff"), string(segmentKey(7)): {0xff}} {
		if err := s.db.Set([]byte(key), value, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Dir: dir, byHand: true})
	ld, err := s.Logs(context.Background(), pcommon.TraceID{1})
	if !errors.Is(err, ErrCorrupt) || ld.LogRecordCount() != 1 {
		t.Errorf("%d records, %v", ld.LogRecordCount(), err)
	}
	if _, err := s.Trace(context.Background(), traceID(1)); err != nil {
		t.Error(err)
	}
}

// Writers, readers and retention at once: no record is lost or counted twice.
func TestLogsConcurrently(t *testing.T) {
	s := open(t, Options{NoSync: true})
	var work sync.WaitGroup
	for i := range byte(8) {
		work.Go(func() {
			for range 20 {
				writeLogs(t, s, records(1, i+1, 100))
				bodies(t, s, i+1)
			}
		})
	}
	work.Wait()
	if st := s.LogStats(); st.Records != 320 || len(bodies(t, s, 100)) != 160 {
		t.Errorf("%+v", st)
	}
}

func FuzzLogsDecode(f *testing.F) {
	f.Add([]byte{0})
	f.Add(bytes.Repeat([]byte{0xff}, 20))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = decodeLogs(b) })
}
