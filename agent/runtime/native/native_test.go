package native_test

import (
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

func compile(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("gcc", append([]string{"-O1"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %q: %v\n%s", args, err, out)
	}
}

// Threads, their values under a key and their variables in modules, by each model
// of access, are found where the process itself says they are.
func TestThreads(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	dir := t.TempDir()
	models := map[string]string{"general.so": "-ftls-model=global-dynamic", "initial.so": "-ftls-model=initial-exec", "desc.so": "-mtls-dialect=gnu2"}
	program := []string{}
	for name, option := range models {
		program = append(program, filepath.Join(dir, name))
		compile(t, "-shared", "-fPIC", option, "testdata/module.c", "-o", filepath.Join(dir, name))
	}
	exe := filepath.Join(dir, "threads")
	compile(t, "testdata/threads.c", "-o", exe)
	for _, keys := range []string{"3", "31", "32", "100"} {
		proc, lines := nativetest.Run(t, exe, append([]string{keys}, program...)...)
		p, err := native.Open(proc, reading.New())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		libc, err := p.LibC()
		if err != nil {
			t.Fatal(err)
		}
		var owners []native.Owner
		for _, line := range lines {
			var o native.Owner
			if _, err := fmt.Sscan(line, &o.Thread, &o.TID, &o.Value); err != nil {
				t.Fatal(err)
			}
			owners = append(owners, o)
		}
		threads, err := libc.Threads(p.Memory)
		if err != nil || len(threads) != len(owners)+1 {
			t.Errorf("%x of %x: %v", threads, owners, err)
		}
		paths := map[string]native.Path{}
		if paths["key"], err = libc.KeyPath(p.Memory, owners); err != nil {
			t.Error(err)
		}
		own, err := p.Executable()
		if err != nil {
			t.Fatal(err)
		}
		s, _ := own.Symbol("own")
		if paths["own"], err = p.TLSPath(libc, own, s.Value); err != nil || elf.ST_TYPE(s.Info) != elf.STT_TLS {
			t.Error(s, err)
		}
		for name := range models {
			m, err := p.Library(name)
			if err != nil {
				t.Fatal(err)
			}
			s, _ := m.Symbol("value")
			if paths[name], err = p.TLSPath(libc, m, s.Value); err != nil {
				t.Error(err)
			}
			if _, err := p.TLSPath(libc, m, 16); err == nil {
				t.Error("a variable beyond the block")
			}
		}
		for name, path := range paths {
			for _, o := range owners {
				if got := path.Follow(p.Memory, o.Thread); got != o.Value || !slices.Contains(threads, o.Thread) {
					t.Errorf("%s of thread %#x by %v is %#x, want %#x", name, o.Thread, path, got, o.Value)
				}
			}
		}

		// What does not fit glibc, or other threads, is refused.
		for name, wrong := range map[string]func(o *native.Owner){
			"thread id": func(o *native.Owner) { o.TID++ },
			"value":     func(o *native.Owner) { o.Value++ },
			"pointer":   func(o *native.Owner) { o.Thread += 8 },
			"no memory": func(o *native.Owner) { o.Thread = 1<<63 - 8 },
		} {
			liars := slices.Clone(owners)
			for i := range liars {
				wrong(&liars[i])
			}
			if path, err := libc.KeyPath(p.Memory, liars); err == nil {
				t.Errorf("%s: %v", name, path)
			}
		}
	}
}

// Reading a process leaves no descriptors behind.
func TestClose(t *testing.T) {
	count := func() int { fds, _ := os.ReadDir("/proc/self/fd"); return len(fds) }
	python := nativetest.Programs(t, "TARE_TEST_PYTHON", "/usr/bin/python3")[0]
	dir, _ := nativetest.Run(t, python, "-c", "print('ready', flush=True); import os; os.read(0, 1)")
	before := count()
	p, err := native.Open(dir, reading.New())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.LibC(); err != nil || count() <= before {
		t.Errorf("%v, %d descriptors after %d", err, count(), before)
	}
	if p.Close(); count() != before {
		t.Errorf("%d descriptors, were %d", count(), before)
	}
}

// A module's file may be gone, replaced, or be mapped without being loaded.
func TestModules(t *testing.T) {
	python := nativetest.Programs(t, "TARE_TEST_PYTHON", "/usr/bin/python3")[0]
	libs, err := filepath.Glob("/lib/x86_64-linux-gnu/libm.so.6")
	if err != nil || len(libs) == 0 {
		t.Skip("needs a library of glibc")
	}
	b, err := os.ReadFile(libs[0])
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "libmoved.so")
	if err := os.WriteFile(at, b, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, _ := nativetest.Run(t, python, "-c", `
import ctypes, mmap, os, sys
f = open(sys.argv[1], 'rb')
data = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) # of which headers say nothing
if sys.argv[2] == 'load': ctypes.CDLL(sys.argv[1])
os.rename(sys.argv[1], sys.argv[1] + '.gone')
open(sys.argv[1], 'w').write('another')
print('ready', flush=True)
sys.stdin.read()`, at, "load")
	p, err := native.Open(dir, reading.New())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := p.Library("libmoved.so*")
	if err != nil {
		t.Fatal(err)
	}
	s, ok := m.Symbol("cos")
	if !ok || m.Address("cos") != m.Bias+s.Value || m.Address("no such") != 0 {
		t.Errorf("%+v at %#x", s, m.Address("cos"))
	}
	if head := p.Read(m.Bias, 4); string(head) != elf.ELFMAG {
		t.Errorf("%q at its beginning", head)
	}
	if _, err := p.Library("nosuch*"); err == nil || err.Error() != "no nosuch*" {
		t.Error(err)
	}
	if err := os.WriteFile(at, b, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, _ = nativetest.Run(t, python, "-c", `
import mmap, sys
f = open(sys.argv[1], 'rb')
data = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
print('ready', flush=True)
sys.stdin.read()`, at)
	q, err := native.Open(dir, reading.New())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Library("libmoved.so"); err == nil || !strings.Contains(err.Error(), "not loaded") {
		t.Errorf("read, not loaded: %v", err)
	}
}

// FuzzThreads gives glibc's decoders memory and offsets of arbitrary content: none
// may panic or go on for ever.
func FuzzThreads(f *testing.F) {
	f.Add(uint64(8), []byte("a string\x00"))
	f.Fuzz(func(t *testing.T, seed uint64, b []byte) {
		const at = nativetest.Base
		r := rand.New(rand.NewPCG(seed, 0))
		source := &nativetest.Torn{Source: nativetest.Fake(b), Random: r}
		m := native.NewMemory(source, reading.New())
		number := func() uint64 { return r.Uint64() >> r.IntN(64) }
		l := native.LibC{Specific: number(), KeyData: 8, KeySize: number(), Block: number(), TID: number(), DTVP: 8, DTVSize: 16}
		if seed%2 == 0 {
			l.KeySize, l.Block, l.TID, l.Specific = 16, 512, 8, 16
		}
		l.Lists(at+number()%64, at+number()%64)
		threads, err := l.Threads(m)
		if err != nil {
			t.Fatal(err)
		}
		owners := []native.Owner{{Thread: at, TID: m.Half(at + l.TID), Value: m.Word(at + 64)}, {Thread: at + 8, TID: m.Half(at + 8 + l.TID), Value: number()}}
		if path, err := l.KeyPath(m, owners); err == nil && path.Follow(m, at) != owners[0].Value {
			t.Errorf("%v leads to %#x", path, path.Follow(m, at))
		}
		for _, addr := range append(threads[:min(len(threads), 8)], at+uint64(len(b))-4, 1<<63, ^uint64(0)) {
			if s := m.String(addr); len(s) > 256 {
				t.Errorf("%d bytes", len(s))
			}
			m.Read(addr, number())
		}
		if source.Reads > 1<<13 {
			t.Errorf("%d reads", source.Reads)
		}
	})
}
