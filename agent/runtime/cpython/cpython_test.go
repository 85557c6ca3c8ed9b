package cpython

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

func pythons(t testing.TB) []string {
	home, _ := os.UserHomeDir()
	return nativetest.Programs(t, "TARE_TEST_PYTHON", "/usr/bin/python3", "/usr/bin/python3.1?", home+"/.pyenv/versions/3.*/bin/python3")
}

// version asks a Python for the minor version.
func version(t *testing.T, python string) (minor int) {
	t.Helper()
	out, err := exec.Command(python, "-c", "import sys; print(sys.version_info[1])").Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &minor)
	}
	if err != nil {
		t.Fatal(err)
	}
	return minor
}

func each(t *testing.T, test func(t *testing.T, python string, minor int)) {
	for _, python := range pythons(t) {
		t.Run(strings.ReplaceAll(python, "/", " "), func(t *testing.T) { test(t, python, version(t, python)) })
	}
}

// attributes are the values of an object's attributes, as the kernel side would
// read them.
func attributes(m *native.Memory, l *Layout, object uint64) (values []uint64) {
	a, class := l.Attributes, m.Word(object+ObjectType)
	at := func(offset int32) uint64 { return object + uint64(int64(offset)) }
	if m.Word(class+TypeFlags)&a.Flag == 0 {
		return nil
	}
	if a.Values == 0 {
		block := object + m.Word(class+TypeBasicSize)
		if m.Byte(block+uint64(a.Valid)) != 1 {
			return nil
		}
		for i := range uint64(m.Byte(block + uint64(a.Capacity))) {
			values = append(values, m.Word(block+uint64(a.First)+8*i))
		}
		return values
	}
	block := m.Word(at(a.Values))
	if a.Values == a.Dict {
		if block&1 == 0 {
			return nil
		}
		block++
	}
	if block == 0 {
		return nil
	}
	count := block + uint64(int64(a.Capacity))
	for i := range uint64(m.Byte(count)) {
		values = append(values, m.Word(block+8*uint64(m.Byte(count-1-i))))
	}
	return values
}

// The layout leads from each thread to what the program says is there.
func TestThreads(t *testing.T) {
	each(t, func(t *testing.T, python string, minor int) {
		if minor < 11 {
			t.Skipf("3.%d", minor)
		}
		dir, lines := nativetest.Run(t, python, "testdata/threads.py")
		l, err := Read(dir, reading.New())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", *l)
		if l.Minor != minor || (l.Task != 0) != (minor >= 14) || len(lines) != 3 {
			t.Fatalf("%+v, want 3.%d", *l, minor)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		m := p.Memory
		for _, line := range lines {
			var tid uint32
			var thing, task, fields, a, c uint64
			if _, err := fmt.Sscan(line, &tid, &thing, &task, &fields, &a, &c); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(threads, func(thread uint64) bool { return m.Half(thread+libc.TID) == tid })
			if i < 0 {
				t.Fatalf("no thread %d", tid)
			}
			state := l.State.Follow(m, threads[i])
			local := func(frame uint64) uint64 { return m.Word(frame+uint64(l.Locals)) &^ l.Tag }
			frame := l.Frame.Follow(m, state)
			for end := time.Now().Add(5 * time.Second); local(frame) != thing && time.Now().Before(end); { // until it reads
				m.Forget()
				frame = l.Frame.Follow(m, state)
			}
			if owner := m.Byte(frame + uint64(l.Owner)); local(frame) != thing || owner != 0 {
				t.Errorf("the current frame of owner %d has %#x, want %#x", owner, local(frame), thing)
			}
			var coroutines []uint64
			for range maxFrames {
				if frame = m.Word(frame + uint64(l.Previous)); m.Byte(frame+uint64(l.Owner)) == Generator {
					coroutines = append(coroutines, local(frame))
				}
			}
			if !slices.Equal(coroutines, []uint64{thing}) {
				t.Errorf("coroutines' first locals are %#x, want %#x", coroutines, thing)
			}
			if l.Task != 0 && m.Word(state+uint64(l.Task)) != task {
				t.Errorf("task %#x, want %#x", m.Word(state+uint64(l.Task)), task)
			}
			got := slices.DeleteFunc(attributes(m, l, thing), func(v uint64) bool { return v == 0 })
			if !slices.Equal(got, []uint64{a, c}) {
				t.Errorf("attributes %#x, want %#x and %#x", got, a, c)
			}
			if got := attributes(m, l, fields); got != nil {
				t.Errorf("attributes %#x of an object with slots", got)
			}
			class := m.Word(fields + ObjectType)
			if name, size := m.String(m.Word(class+TypeName)), m.Word(class+TypeBasicSize); name != "Fields" || size != 32 {
				t.Errorf("%q of %d bytes", name, size)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, python string, minor int) {
		why := "before 3.11: frames are not known"
		if minor >= 11 {
			why = "several interpreters"
		}
		dir, _ := nativetest.Run(t, python, "-c", "import os; print('ready', flush=True); os.read(0, 1)")
		if minor >= 11 {
			dir, _ = nativetest.Run(t, python, "testdata/threads.py", "interpreter")
		} else if minor < 7 {
			why = "no _PyRuntime in libpython or the executable"
		}
		if l, err := Read(dir, reading.New()); err == nil || err.Error() != why {
			t.Errorf("%+v, %v, want %q", l, err, why)
		}
	})
	if l, err := Read("/proc/self", reading.New()); err == nil {
		t.Errorf("%+v of a program in Go", l)
	}
}

// A fork's thread has another id; the layout is the same.
func TestForked(t *testing.T) {
	each(t, func(t *testing.T, python string, minor int) {
		if minor < 11 {
			t.Skipf("3.%d", minor)
		}
		dir, lines := nativetest.Run(t, python, "-c", `
import os
pid = os.fork()
if pid == 0:
    os.read(0, 1)
    os._exit(0)
print(pid)
print('ready', flush=True)
os.read(0, 1)`)
		l, err := Read(dir, reading.New())
		if err != nil {
			t.Fatal(err)
		}
		if forked, err := Read("/proc/"+lines[0], reading.New()); err != nil || !reflect.DeepEqual(l, forked) {
			t.Errorf("%+v, %v, want %+v", forked, err, l)
		}
	})
}

// A process whose memory lies is read as it is, or refused.
func TestTorn(t *testing.T) {
	each(t, func(t *testing.T, python string, minor int) {
		if minor < 11 {
			t.Skipf("3.%d", minor)
		}
		dir, _ := nativetest.Run(t, python, "testdata/threads.py")
		p, err := native.Open(dir, reading.New())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		module, err := p.Library("libpython*")
		if err != nil {
			if module, err = p.Executable(); err != nil {
				t.Fatal(err)
			}
		}
		libc, err := p.LibC()
		if err != nil {
			t.Fatal(err)
		}
		address := map[string]uint64{}
		for _, name := range []string{"_PyRuntime", "PyCode_Type", "Py_Version"} {
			address[name] = module.Address(name)
		}
		at := func(name string) uint64 { return address[name] }
		whole, err := read(p.Memory, libc, at)
		if err != nil {
			t.Fatal(err)
		}
		source := nativetest.Memory(t, dir)
		for _, rate := range []float64{0, 1e-4, 1e-2, 1} {
			same, refused := 0, 0
			for seed := range uint64(20) {
				torn := &nativetest.Torn{Source: source, Random: rand.New(rand.NewPCG(seed, 0)), Rate: rate}
				l, err := read(native.NewMemory(torn, reading.New()), libc, at)
				if err != nil {
					refused++
				} else if reflect.DeepEqual(l, whole) {
					same++
				}
				if torn.Reads > 1<<14 {
					t.Errorf("%d reads", torn.Reads)
				}
			}
			t.Logf("%g of words changed: %d whole, %d refused", rate, same, refused)
			if rate == 0 && same != 20 || rate == 1 && refused != 20 {
				t.Errorf("%g of words changed: %d whole, %d refused", rate, same, refused)
			}
		}
	})
}

// FuzzRead gives the decoder an interpreter of arbitrary content.
func FuzzRead(f *testing.F) {
	const base = nativetest.Base
	f.Add(uint32(0x030b02f0), []byte{})
	f.Add(uint32(0x030c01f0), make([]byte, 512))
	f.Add(uint32(0x030d00f0), append([]byte("xdebugpy\x00\x00\x0d\x03"), make([]byte, 512)...))
	f.Add(uint32(0x030e03f0), append([]byte("xdebugpy\x00\x00\x0e\x03"), make([]byte, 512)...))
	f.Fuzz(func(t *testing.T, version uint32, b []byte) {
		memory := append(slices.Clone(b), make([]byte, (8-len(b)%8)%8)...)
		at := base + uint64(len(memory)) // of the version
		readingtest.Live(t, func() {
			for _, source := range nativetest.Sources(binary.LittleEndian.AppendUint64(memory, uint64(version))) {
				source := &nativetest.Torn{Source: source, Random: rand.New(rand.NewPCG(0, 0))}
				m := native.NewMemory(source, reading.New())
				libc := &native.LibC{Specific: 16, KeyData: 8, KeySize: 16, Block: 512, TID: 8, DTVP: 8, DTVSize: 16}
				l, err := read(m, libc, func(name string) uint64 {
					return map[string]uint64{"_PyRuntime": base, "PyCode_Type": base + 64, "Py_Version": at}[name]
				})
				if (l == nil) == (err == nil) || source.Reads > 1<<13 {
					t.Errorf("%+v, %v, %d reads", l, err, source.Reads)
				}
			}
		})
	})
}
