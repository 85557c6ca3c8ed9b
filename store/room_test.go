package store

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/testkit"
)

// blindFS says that there is always room, as if somebody took it just after it
// was asked for.
type blindFS struct{ vfs.FS }

func (blindFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40}, nil
}

// fill takes all room there is.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size >= 1; {
		if _, err := f.Write(make([]byte, size)); isFull(err) {
			size /= 4
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// noisy is traces that take 128 KiB however they are compressed.
func noisy(from, n int) ptrace.Traces {
	td := shop(from, n)
	r := rand.New(rand.NewPCG(uint64(from), 9))
	noise := make([]byte, 128<<10)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().PutEmptyBytes("noise").FromRaw(noise)
	return td
}

// writers write until they are stopped, and know what was acknowledged.
type writers struct {
	t       *testing.T
	s       *Store
	next    atomic.Int64
	refused atomic.Int64
	stop    atomic.Bool
	done    sync.WaitGroup
	mu      sync.Mutex
	written []int
}

func startWriters(t *testing.T, s *Store) *writers {
	w := &writers{t: t, s: s}
	t.Cleanup(func() { w.stop.Store(true) })
	for range 3 {
		w.start()
	}
	return w
}

// start starts one more.
func (w *writers) start() {
	w.done.Go(func() {
		for !w.stop.Load() {
			n := int(w.next.Add(1))
			switch err := w.s.Write(context.Background(), noisy(n*4, 4)); {
			case err == nil:
				w.mu.Lock()
				w.written = append(w.written, n)
				w.mu.Unlock()
				time.Sleep(20 * time.Millisecond) // the disk is small
			case errors.Is(err, ErrFull):
				w.refused.Add(1)
				time.Sleep(10 * time.Millisecond)
			default:
				if errors.Is(err, ErrClosed) && w.stop.Load() {
					return
				}
				w.t.Error(err)
				return
			}
		}
	})
}

// untilRefused returns when something waits for room and more than so many
// writes were refused since. All that wrote so far may be on their way, and wait
// themselves; so others come.
func (w *writers) untilRefused(more int64) {
	w.t.Helper()
	enough := w.refused.Load() + more
	testkit.Until(w.t, 15*time.Second, "refusing", func() bool {
		if w.s.fs.waiting.Load() == 0 {
			return false
		}
		if w.refused.Load() > enough {
			return true
		}
		w.start()
		return false
	})
}

func (w *writers) acknowledged() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]int(nil), w.written...)
}

func checkWritten(t *testing.T, s *Store, written []int) {
	t.Helper()
	for _, n := range written {
		for i := range 4 {
			if td, err := s.Trace(context.Background(), traceID(uint64(n*4+i+1))); err != nil || td.SpanCount() != 10 {
				t.Fatalf("write %d, trace %d: %d spans, %v", n, i, td.SpanCount(), err)
			}
		}
	}
}

// Somebody else fills the disk, again and again, after the store has looked
// whether there is room. Writes on their way wait, others are refused, reading
// goes on, and when there is room everything does.
func TestDiskFilledBySomebodyElse(t *testing.T) {
	for name, noSync := range map[string]bool{"sync": false, "no sync": true} {
		t.Run(name, func(t *testing.T) {
			dir := tmpfs(t, "300m")
			opt := Options{Dir: filepath.Join(dir, "store"), NoSync: noSync, small: 8 << 20, disk: blindFS{vfs.Default}}
			s := open(t, opt)
			w := startWriters(t, s)
			filler := filepath.Join(dir, "filler")
			for range 2 {
				before := len(w.acknowledged())
				testkit.Until(t, 15*time.Second, "writing", func() bool { return len(w.acknowledged()) > before+20 })
				fill(t, filler)
				w.untilRefused(0)
				checkWritten(t, s, w.acknowledged()[:20])
				if r, err := s.Search(context.Background(), Query{Service: "cart"}); err != nil || len(r.Traces) != 20 {
					t.Errorf("%d traces, %v", len(r.Traces), err)
				}
				if err := os.Remove(filler); err != nil {
					t.Fatal(err)
				}
				before = len(w.acknowledged())
				testkit.Until(t, 15*time.Second, "writing again", func() bool { return len(w.acknowledged()) > before+5 })
			}
			w.stop.Store(true)
			w.done.Wait()
			written := w.acknowledged()
			checkWritten(t, s, written)
			if st := s.Stats(); st.Spans != uint64(40*len(written)) || st.Refused != uint64(40*w.refused.Load()) {
				t.Errorf("%d writes, %d refused: %+v", len(written), w.refused.Load(), st)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			opt.disk = nil
			checkWritten(t, open(t, opt), written)
		})
	}
}

// Close does not wait for room for ever; when there is room, it comes to its end.
func TestCloseOnAFullDisk(t *testing.T) {
	dir := tmpfs(t, "300m")
	opt := Options{Dir: filepath.Join(dir, "store"), small: 8 << 20, disk: blindFS{vfs.Default}}
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	s.closing = 300 * time.Millisecond
	w := startWriters(t, s)
	testkit.Until(t, 15*time.Second, "writing", func() bool { return len(w.acknowledged()) > 20 })
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	// What the log had reserved is used up: a writer waits.
	w.untilRefused(3)
	w.stop.Store(true)
	if err := s.Close(); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w.done.Wait()
	opt.disk = nil
	testkit.Until(t, 15*time.Second, "released", func() bool {
		s, err = Open(opt)
		if err != nil && !errors.Is(err, ErrInUse) {
			t.Fatal(err)
		}
		return err == nil
	})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	checkWritten(t, s, w.acknowledged())
}

// A table that finds no room fails, so that its part can be removed; a sync that
// fails is not repeated.
func TestWhatIsNotWaitedFor(t *testing.T) {
	full := fullFile{}
	f := &roomFS{FS: vfs.Default, log: discard()}
	tries := 0
	if err := f.do("000001.sst", func() error { tries++; return full.err() }); !isFull(err) || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	file := &roomFile{full, f, "000001.log"}
	if err := file.Sync(); !isFull(err) {
		t.Error(err)
	}
	if err := file.SyncData(); !isFull(err) {
		t.Error(err)
	}
}

// What was written before the disk was full is not written twice.
func TestPartOfAWrite(t *testing.T) {
	var got []byte
	f := &roomFS{FS: vfs.Default, log: discard()}
	file := &roomFile{&partial{got: &got}, f, "000001.log"}
	n, err := file.Write([]byte("0123456789"))
	if err != nil || n != 10 || string(got) != "0123456789" || f.waiting.Load() != 0 {
		t.Errorf("%d, %v: %q", n, err, got)
	}
}

// fullFile is a file on a full disk.
type fullFile struct{ vfs.File }

func (fullFile) err() error        { return &os.PathError{Op: "write", Err: syscall.ENOSPC} }
func (f fullFile) Sync() error     { return f.err() }
func (f fullFile) SyncData() error { return f.err() }

// partial takes three bytes at once, and every other time none.
type partial struct {
	vfs.File
	got  *[]byte
	call int
}

func (p *partial) Write(b []byte) (int, error) {
	p.call++
	n := 0
	if p.call%2 == 1 {
		n = min(3, len(b))
	}
	*p.got = append(*p.got, b[:n]...)
	if n < len(b) {
		return n, fullFile{}.err()
	}
	return n, nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
