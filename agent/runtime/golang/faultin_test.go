package golang

import (
	"debug/elf"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/elffile"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

// watched is a program's memory, and what was read of it.
type watched struct {
	*image
	pieces []Range
}

func (w *watched) ReadAt(b []byte, off int64) (int, error) {
	at := uint64(off)
	w.pieces = append(w.pieces, Range{at, at + uint64(len(b))})
	return copy(b, w.read(at, uint64(len(b)))), nil
}

func (w *watched) has(at uint64) bool {
	return slices.ContainsFunc(w.pieces, func(r Range) bool { return at >= r.Low && at < r.High })
}

// What the kernel side reads of a function is read: its entry and description, which entry
// of its maps holds, and the maps.
func TestFaultIn(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = exe.Close() }()
	f, err := elffile.New(exe)
	if err != nil {
		t.Fatal(err)
	}
	if f.Type != elf.ET_EXEC {
		t.Skip("the test is position independent: without a process its tables cannot be read")
	}
	m, err := openImage(f, exe, nil, 0, reading.New())
	if err != nil {
		t.Fatal(err)
	}
	mod, reason := openModule(m)
	if reason != Fits {
		t.Fatal(reason)
	}
	p, pc := &Program{Layout: derive(mod)}, uint64(reflect.ValueOf(os.ReadFile).Pointer())+1
	fn, ok := mod.at(pc)
	if !ok {
		t.Fatal("os.ReadFile is not in the table of functions")
	}
	w := &watched{image: m}
	if err := p.FaultIn(w, uint32(pc+1-mod.text)); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{"its description": fn.record + recordTables}
	for what, kind := range map[string]uint64{"arguments' map": dataArguments, "variables' map": dataLocals, "arguments": dataArgs, "which are written": dataArgLive} {
		if at := mod.funcdata(fn, kind); at != 0 {
			want[what] = at
		}
	}
	for what, kind := range map[string]uint64{"which entry": tableStackMap, "which arguments": tableArgLive} {
		if off := mod.pcdata(fn, kind); off != 0 {
			want[what] = mod.pctab.addr + uint64(off)
		}
	}
	if len(want) < 6 {
		t.Fatalf("os.ReadFile has %v alone", want)
	}
	for what, at := range want {
		if !w.has(at) {
			t.Errorf("%s, at %#x, was not read", what, at)
		}
	}
	for _, pc := range []uint32{0, 1, uint32(mod.etext - mod.text), 1 << 31, ^uint32(0)} {
		_ = p.FaultIn(w, pc) // of an address that is no function's
	}
}
