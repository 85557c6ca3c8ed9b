package journal

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

func request(n byte) ptrace.Traces {
	td := ptrace.NewTraces()
	sp := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	sp.SetTraceID([16]byte{n})
	sp.SetSpanID([8]byte{n})
	return td
}

func open(t *testing.T, dir string, change func(*Options)) *Journal {
	t.Helper()
	o := Options{Dir: dir}
	if change != nil {
		change(&o)
	}
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func appendTo(t *testing.T, j *Journal, n byte) Ticket {
	t.Helper()
	ticket, err := j.Append(request(n))
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// read returns the requests that are left, by their number.
func read(j *Journal) (got map[byte]int, err error) {
	got = map[byte]int{}
	err = j.Read(func(td ptrace.Traces) error {
		id := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).TraceID()
		got[id[0]]++
		return nil
	})
	return got, err
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Senders append at once, with a sync for each; a process that is killed leaves all of it.
func TestAppendAndRead(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, func(o *Options) { o.Sync, o.SegmentBytes = true, 512 })
	var senders sync.WaitGroup
	for n := range byte(8) {
		senders.Go(func() {
			for i := range byte(10) {
				if _, err := j.Append(request(10*n + i + 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	if len(segments(t, dir)) < 2 {
		t.Error("one segment")
	}
	got, err := read(open(t, dir, nil)) // the first is not closed, as after a kill
	if err != nil || len(got) != 80 {
		t.Errorf("%d requests, %v", len(got), err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// A segment is free when it is complete, all of it was added, and nothing that waits is as old.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, func(o *Options) { o.SegmentBytes = 1 })
	first, second := appendTo(t, j, 1), appendTo(t, j, 2)
	now := time.Now()
	if free := j.Free(now, false); len(free) != 0 {
		t.Error("free while it is being added")
	}
	first.Done(now)
	second.Done(now.Add(time.Second))
	if free := j.Free(now, true); len(free) != 0 {
		t.Error("free while something waits that is as old")
	}
	free := j.Free(now.Add(time.Millisecond), true)
	if len(free) != 1 {
		t.Fatalf("%d are free", len(free))
	}
	if err := errors.Join(j.Remove(free), j.Remove(free), j.Close()); err != nil {
		t.Fatal(err)
	}
	if free := j.Free(now, false); len(free) != 1 || len(segments(t, dir)) != 1 || j.Bytes() == 0 {
		t.Errorf("%d free, %v, %d bytes", len(free), segments(t, dir), j.Bytes())
	}
}

// A request that was being written when the process ended is none; one that is damaged is said
// to be, and those before it are read.
func TestTornAndDamaged(t *testing.T) {
	made := t.TempDir()
	j := open(t, made, nil)
	for n := range byte(3) {
		appendTo(t, j, n+1)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(segments(t, made)[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		want    int
		damaged bool
	}{
		"whole":   {b, 3, false},
		"torn":    {b[:len(b)-1], 2, false},
		"zeros":   {append(append([]byte{}, b...), make([]byte, 100)...), 3, false},
		"flipped": {append(append(append([]byte{}, b[:len(b)-3]...), b[len(b)-3]^1), b[len(b)-2:]...), 2, true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(segments(t, made)[0])), c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := read(open(t, dir, nil))
		if len(got) != c.want || (err != nil) != c.damaged {
			t.Errorf("%s: %d requests, %v", name, len(got), err)
		}
	}
}

// A segment during whose reading the process ends each time is set aside, and the next is read.
func TestReadingEndsTheProcess(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, func(o *Options) { o.SegmentBytes = 1 })
	appendTo(t, j, 1)
	appendTo(t, j, 2)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 * attempts { // which is no attempt
		err := open(t, dir, nil).Read(func(ptrace.Traces) error { return ErrStop })
		if !errors.Is(err, ErrStop) {
			t.Fatal(err)
		}
	}
	for range attempts {
		func() {
			defer func() { _ = recover() }()
			_ = open(t, dir, nil).Read(func(ptrace.Traces) error { panic("as a fault would end the process") })
		}()
	}
	got, err := read(open(t, dir, nil))
	if err == nil || got[1] != 0 || got[2] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if failed, _ := filepath.Glob(filepath.Join(dir, "*.failed")); len(failed) != 1 {
		t.Errorf("set aside: %v", failed)
	}
}

// A journal takes no more than it may, and what it took counts until it is removed.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	one := open(t, t.TempDir(), nil)
	appendTo(t, one, 1)
	size := one.Bytes()
	j := open(t, dir, func(o *Options) { o.MaxBytes, o.SegmentBytes = 3*size, size })
	for n := range byte(3) {
		appendTo(t, j, n+1).Done(time.Now())
	}
	if _, err := j.Append(request(4)); !errors.Is(err, ErrFull) {
		t.Fatalf("a fourth of three: %v", err)
	}
	if got := j.Bytes(); got != 3*size {
		t.Errorf("%d bytes, want %d", got, 3*size)
	}
	if err := j.Remove(j.Free(time.Now(), false)); err != nil {
		t.Fatal(err)
	}
	appendTo(t, j, 5)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, func(o *Options) { o.MaxBytes = size })
	if _, err := again.Append(request(6)); !errors.Is(err, ErrFull) {
		t.Errorf("what another process left does not count: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}
