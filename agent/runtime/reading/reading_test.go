package reading

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var processes atomic.Int64

// process is one that no other test has read.
func process() ID { return ID{PID: int(processes.Add(1)), StartTime: 1} }

// A process is read as far as its account allows, by all readers together, and again when there is
// enough in it; each time that it is not is counted.
func TestAccount(t *testing.T) {
	for limit, spend := range map[Limit]func(*Account){
		TooManyBytes: func(a *Account) {
			r, b := a.Of(endless{}), make([]byte, 1<<20)
			for i := 0; ; i++ {
				if _, err := r.ReadAt(b, 0); err != nil {
					if i != Bytes>>20 || !errors.Is(err, TooManyBytes) {
						t.Errorf("%d MiB were read, %v", i, err)
					}
					return
				}
			}
		},
		TooMuchWork: func(a *Account) {
			n := 0
			for a.Work(1 << 10) {
				n++
			}
			if n != Work>>10 {
				t.Errorf("%d steps", n<<10)
			}
		},
		Shape: func(a *Account) { a.Exceed() },
	} {
		synctest.Test(t, func(t *testing.T) {
			id, before := process(), Unread(limit)
			read := func(f func(*Account)) error {
				v, err := Do(id, "", func(a *Account) (int, error) { f(a); return 1, nil })
				if (v == 1) != (err == nil) {
					t.Errorf("%d with %v", v, err)
				}
				return err
			}
			nothing := func(*Account) {}
			if err := read(nothing); err != nil {
				t.Fatal(err)
			}
			if err := read(spend); !errors.Is(err, limit) || err.Error() == "" {
				t.Errorf("%v, want %v", err, limit)
			}
			counted := uint64(1)
			if limit != Shape {
				time.Sleep(refill / enough / 2)
				if err := read(nothing); !errors.Is(err, limit) {
					t.Errorf("%v right after all was spent", err)
				}
				counted++
			}
			time.Sleep(refill / enough)
			if err := read(nothing); err != nil {
				t.Errorf("%v when enough was refilled", err)
			}
			if n := Unread(limit) - before; n != counted {
				t.Errorf("counted %d, want %d", n, counted)
			}
		})
	}
}

type endless struct{}

func (endless) ReadAt(b []byte, _ int64) (int, error) { return len(b), nil }

func TestOneProcessAtATime(t *testing.T) {
	var now, done atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := Do(process(), "", func(*Account) (int, error) {
				if now.Add(1) != 1 {
					t.Error("two processes are read")
				}
				_ = os.Getppid()
				now.Add(-1)
				done.Add(1)
				return 0, nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	if all.Wait(); done.Load() != 50 {
		t.Error(done.Load())
	}
}

// Files that do not answer keep the reader of their process, and no other one, until there
// are too many of them.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		hang := func(*Account) (int, error) { <-answer; return 1, nil }
		work := func(*Account) (int, error) { return 1, nil }
		first := process()
		began := time.Now()
		if v, err := Do(first, "", hang); !errors.Is(err, Stuck) || v != 0 || time.Since(began) != patience {
			t.Errorf("%d, %v after %v", v, err, time.Since(began))
		}
		began = time.Now()
		if _, err := Do(first, "", work); !errors.Is(err, Stuck) {
			t.Errorf("%v of a process that does not answer", err)
		}
		if v, err := Do(process(), "", work); v != 1 || err != nil || time.Since(began) != 0 {
			t.Errorf("another process: %d, %v after %v", v, err, time.Since(began))
		}
		for range maxStuck - 1 {
			if _, err := Do(process(), "", hang); !errors.Is(err, Stuck) {
				t.Error(err)
			}
		}
		if _, err := Do(process(), "", work); !errors.Is(err, Busy) {
			t.Errorf("%v with %d that do not answer", err, maxStuck)
		}
		close(answer)
		synctest.Wait()
		for _, id := range []ID{first, process()} {
			if v, err := Do(id, "", work); v != 1 || err != nil {
				t.Errorf("%d, %v when all have answered", v, err)
			}
		}
	})
}

// However many processes come and go, few accounts are kept, those of stuck processes among them.
func TestAccountsAreForgotten(t *testing.T) {
	all := map[ID]*Account{}
	account(all, ID{PID: -1}, 1).stuck = true
	for i := range 3 * maxAccounts {
		account(all, ID{PID: i}, 1)
	}
	if n := len(all); n > maxAccounts || !account(all, ID{PID: -1}, 1).stuck {
		t.Errorf("%d accounts", n)
	}
}

// However many processes a container has, so much is read of all; other containers' are read.
func TestContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spend := func(a *Account) (int, error) {
			for a.Work(1 << 10) {
			}
			return 0, a.Err()
		}
		work := func(*Account) (int, error) { return 1, nil }
		before := Unread(Container)
		read := 0
		for range 3 * crowd {
			if _, err := Do(process(), "hostile", spend); !errors.Is(err, Container) {
				read++
			}
		}
		if read < crowd || read > crowd+1 || Unread(Container)-before != uint64(3*crowd-read) {
			t.Errorf("%d processes were read, %d counted", read, Unread(Container)-before)
		}
		for _, group := range []string{"other", ""} {
			if _, err := Do(process(), group, work); err != nil {
				t.Errorf("%q: %v", group, err)
			}
		}
		time.Sleep(refill)
		if _, err := Do(process(), "hostile", work); err != nil {
			t.Errorf("%v when all is refilled", err)
		}
	})
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine)
	for text, want := range map[string]string{
		"":                               "",
		"a\nb\n":                         "a,b",
		"a\n\nb":                         "a,,b",
		long:                             "",
		"a\n" + long + "\nb\n":           "a,b",
		long[:maxLine-1] + "\nb":         long[:maxLine-1] + ",b",
		"a\n" + long[:maxLine] + "\nb\n": "a,b",
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "in pieces": &pieces{strings.NewReader(text)}} {
			var got []string
			if err := New().Lines(r, func(line []byte) bool { got = append(got, string(line)); return true }); err != nil {
				t.Error(err)
			}
			if s := strings.Join(got, ","); s != want {
				t.Errorf("%s, %d bytes: %.40q, want %.40q", name, len(text), s, want)
			}
		}
	}
	n := 0
	if err := New().Lines(lines{}, func([]byte) bool { n++; return true }); !errors.Is(err, TooMuchWork) || n > Work/callWork || n < Work/callWork/2 {
		t.Errorf("%v after %d lines", err, n)
	}
	if err := New().Lines(zeros{}, func([]byte) bool { return true }); !errors.Is(err, TooManyBytes) {
		t.Error(err)
	}
}

type pieces struct{ r io.Reader }

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), 1000)]) }

type lines struct{}

func (lines) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("a\n"), len(b)/2)), nil }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// What is no regular file is not opened, and no link of a process leads out of its root.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("outside", "the host's")
	write("root/lib/inside", "its own")
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": "../../outside", "absolute": filepath.Join(dir, "outside"), "in": "/lib/inside", "magic": "/proc/self/exe", "device": "/dev/zero"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"/lib/inside": "its own", "/in": "its own", "/out": "", "/absolute": "", "/magic": "", "/fifo": "", "/device": "", "/lib": "", "/../outside": ""} {
		f, err := OpenIn(dir, name)
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		b, _ := io.ReadAll(f)
		if _ = f.Close(); string(b) != want || want == "" {
			t.Errorf("%s: %q, want %q", name, b, want)
		}
	}
	if !SameFile(dir, "/in", filepath.Join(root, "lib/inside")) || SameFile(dir, "/out", filepath.Join(dir, "outside")) || SameFile(dir, "/none", filepath.Join(dir, "none")) {
		t.Error("which names are of one file")
	}
	for _, name := range []string{filepath.Join(root, "fifo"), "/dev/zero", "/", dir} {
		if f, err := Open(name); err == nil {
			t.Errorf("%s was opened", name)
			_ = f.Close()
		}
	}
}
