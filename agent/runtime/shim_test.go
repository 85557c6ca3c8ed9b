package runtime

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/bpf"
)

// table maps memory that begins like a shim's table, in this process.
func table(t testing.TB, slots uint32, size int) []byte {
	t.Helper()
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	copy(m, shimMagic)
	binary.NativeEndian.PutUint32(m[len(shimMagic):], slots)
	return m
}

// lineOf is the mapping's line in /proc/self/maps, which the kernel may have merged
// with its neighbours.
func lineOf(m []byte) string {
	at := uintptr(unsafe.Pointer(&m[0]))
	return fmt.Sprintf("%x-%x rw-p 00000000 00:00 0\n", at, at+uintptr(len(m)))
}

func mapped(t testing.TB, lines string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/mem", filepath.Join(dir, "mem")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadShim(t *testing.T) {
	const page = 4096
	good := table(t, 32, page)
	for name, c := range map[string]struct {
		lines string
		want  uint64
	}{
		"a table":                    {"7fff00000000-7fff00001000 rw-p 00000000 00:00 0\n" + lineOf(good), uint64(uintptr(unsafe.Pointer(&good[0]))) + shimHeader},
		"no table":                   {"55d0c0000000-55d0c0001000 r-xp 00000000 08:01 7 /usr/bin/node\n", 0},
		"more records than room":     {lineOf(table(t, 64, page)), 0},
		"not a power of two":         {lineOf(table(t, 33, page)), 0},
		"none":                       {lineOf(table(t, 0, page)), 0},
		"another's file":             {lineOf(good)[:len(lineOf(good))-1] + " /srv/data\n", 0},
		"a line that cannot be read": {"7fff rw-p\n-\nx-y rw-p\n\n", 0},
	} {
		var p bpf.TaskProgram
		if err := readShim(mapped(t, c.lines), reading.New(), &p); err != nil || p.Shim.Table != c.want {
			t.Errorf("%s: %#x, %v, want %#x", name, p.Shim.Table, err, c.want)
		}
		if c.want != 0 && p.Shim.Slots != 32 {
			t.Errorf("%d slots", p.Shim.Slots)
		}
	}
	named := table(t, 7, page)
	var p bpf.TaskProgram
	if err := readShim(mapped(t, lineOf(named)[:len(lineOf(named))-1]+" /memfd:tare-threads (deleted)\n"), reading.New(), &p); err == nil || p.Shim.Table != 0 {
		t.Errorf("a table of an unknown shape: %+v, %v", p.Shim, err)
	}
}

// What was told of a process stays until a shim is loaded into it.
func TestLookForShimTellsOfOneAlone(t *testing.T) {
	jvm := byName["java"]
	m := fakeMaps{}
	before := bpf.TaskProgram{State: bpf.TaskRead}
	before.Java.Handles = 1
	if err := m.Put(taskPrograms, uint32(7), before); err != nil {
		t.Fatal(err)
	}
	const page = 4096
	shim := table(t, 32, page)
	for lines, want := range map[string]uint64{"": 0, lineOf(shim): uint64(uintptr(unsafe.Pointer(&shim[0]))) + shimHeader} {
		if err := jvm.LookForShim(&Process{PID: 7, Dir: mapped(t, lines)}, m); err != nil {
			t.Fatal(err)
		}
		got := m[taskPrograms][uint32(7)].(bpf.TaskProgram)
		if want == 0 && got != before || got.Shim.Table != want {
			t.Errorf("%q: %+v", lines, got)
		}
		if err := m.Put(taskPrograms, uint32(7), before); err != nil {
			t.Fatal(err)
		}
	}
	if err := jvm.LookForShim(&Process{PID: 7, Dir: t.TempDir()}, m); err == nil {
		t.Error("no error of a process that has ended")
	}
}

func FuzzReadShim(f *testing.F) {
	f.Add([]byte(shimMagic+"\x20\x00\x00\x00"), "7fff00000000-7fff00001000 rw-p 00000000 00:00 0\n")
	f.Fuzz(func(t *testing.T, head []byte, lines string) {
		m := table(t, 0, 4096)
		copy(m, head)
		var p bpf.TaskProgram
		_ = readShim(mapped(t, lines+"\n"+lineOf(m)), reading.New(), &p)
		if s := p.Shim; s.Table != 0 && (s.Slots == 0 || s.Slots&(s.Slots-1) != 0 || s.Slots > shimSlots || !bytes.HasPrefix(m, []byte(shimMagic))) {
			t.Errorf("%+v of %q", s, m[:shimHeader])
		}
	})
}
