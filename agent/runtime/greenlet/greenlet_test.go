package greenlet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

// pythons are those with greenlet.
func pythons(t *testing.T) []string {
	all := nativetest.Programs(t, "TARE_TEST_PYTHON", "/usr/bin/python3")
	all = slices.DeleteFunc(all, func(python string) bool { return exec.Command(python, "-c", "import greenlet").Run() != nil })
	if len(all) == 0 {
		t.Skip("needs python3-greenlet")
	}
	return all
}

// Threads that wait in a read, in a greenlet of a type of its own as gevent's are,
// below another one; and one that has never used one.
const program = `
import greenlet, os, threading
class Own(greenlet.greenlet): pass
lock, barrier = threading.Lock(), threading.Barrier(3)
def leaf(main):
    with lock:
        print(threading.get_native_id(), id(main), id(greenlet.getcurrent()), flush=True)
    barrier.wait()
    os.read(0, 1)
def run():
    main = greenlet.getcurrent()
    Own(lambda: Own(lambda: leaf(main)).switch()).switch()
for _ in range(2):
    threading.Thread(target=run, daemon=True).start()
threading.Thread(target=os.read, args=(0, 1), daemon=True).start()
barrier.wait()
print('ready', flush=True)
os.read(0, 1)`

// The layout leads from each thread to the greenlets that the program says it has.
func TestThreads(t *testing.T) {
	for _, python := range pythons(t) {
		t.Run(strings.ReplaceAll(python, "/", " "), func(t *testing.T) {
			dir, lines := nativetest.Run(t, python, "-c", program)
			l, err := Read(dir, reading.New())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", *l)
			p, err := native.Open(dir, reading.New())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			libc, err := p.LibC()
			if err != nil {
				t.Fatal(err)
			}
			threads, err := libc.Threads(p.Memory)
			if err != nil || len(lines) != 2 {
				t.Fatal(lines, err)
			}
			for _, line := range lines {
				var tid uint32
				var top, current uint64
				if _, err := fmt.Sscan(line, &tid, &top, &current); err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(threads, func(thread uint64) bool { return p.Half(thread+libc.TID) == tid })
				if i < 0 {
					t.Fatalf("no thread %d", tid)
				}
				state := l.State.Follow(p.Memory, threads[i])
				if got := p.Word(state + uint64(l.Current)); got != current || !l.Greenlet(p.Memory, got) {
					t.Errorf("current is %#x, want %#x", got, current)
				}
				if got := p.Word(state + uint64(l.Main)); got != top || !l.Greenlet(p.Memory, got) {
					t.Errorf("main is %#x, want %#x", got, top)
				}
			}

			// Threads whose memory lies have no greenlets, or the same.
			source := nativetest.Memory(t, dir)
			for _, rate := range []float64{0, 1e-2, 1} {
				refused := 0
				for seed := range uint64(20) {
					torn := &nativetest.Torn{Source: source, Random: rand.New(rand.NewPCG(seed, 0)), Rate: rate}
					if found, err := l.check(native.NewMemory(torn, reading.New()), threads); err != nil || !found {
						refused++
					}
				}
				if rate == 0 && refused > 0 || rate == 1 && refused < 20 {
					t.Errorf("%g of words changed: %d of 20 are refused", rate, refused)
				}
			}
		})
	}
}

func TestAbsent(t *testing.T) {
	dir, _ := nativetest.Run(t, pythons(t)[0], "-c", "import os; print('ready', flush=True); os.read(0, 1)")
	if l, err := Read(dir, reading.New()); !errors.Is(err, ErrAbsent) {
		t.Errorf("%+v, %v", l, err)
	}
}

// Where no thread has used a greenlet yet, the layout is the one that it will have.
func TestUnused(t *testing.T) {
	var states []native.Path
	for _, use := range []string{"", "greenlet.greenlet(lambda: 0).switch()"} {
		dir, _ := nativetest.Run(t, pythons(t)[0], "-c", "import greenlet, os\n"+use+"\nprint('ready', flush=True); os.read(0, 1)")
		l, err := Read(dir, reading.New())
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, l.State)
	}
	if !slices.Equal(states[0], states[1]) {
		t.Errorf("%v before, %v later", states[0], states[1])
	}
}

// FuzzCheck gives the check threads of arbitrary content.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{}, int32(8), int32(8))
	f.Fuzz(func(t *testing.T, b []byte, first, second int32) {
		const at = nativetest.Base
		readingtest.Live(t, func() {
			for i, source := range nativetest.Sources(b) {
				m := native.NewMemory(source, reading.New())
				l := &Layout{State: native.Path{first, second}, Current: 8, Type: at}
				if found, _ := l.check(m, []uint64{at, at + 8, at + uint64(len(b))}); found && len(b) == 0 && i == 0 {
					t.Error("a greenlet in no memory")
				}
				l.Greenlet(m, at+uint64(first)%4096)
			}
		})
	})
}
