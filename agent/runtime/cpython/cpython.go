// Package cpython reads in a CPython process where a thread keeps its frames,
// and where frames and objects keep what they hold: of 3.13 and later by the
// offsets that the interpreter has for debuggers, of 3.11 and 3.12 by a table.
// It refuses what it does not know exactly: older and newer versions,
// free-threaded builds, builds for debugging, several interpreters.
package cpython

import (
	"errors"

	"github.com/tare-trace/tare/agent/runtime/native"
)

// Layout tells where things are. Offsets are in bytes.
type Layout struct {
	Minor int // of the version: 13 for 3.13
	// State is the path to the PyThreadState; 0 in a thread that Python does not
	// know.
	State native.Path
	// Frame is the path from there to the current _PyInterpreterFrame; 0 if none.
	Frame native.Path

	// Of a frame: the one that called it (a pointer, 0 for the last), one byte
	// that says who owns it (Generator is a coroutine's), its code object, and its
	// local variables, 8 bytes each, arguments first.
	Previous, Owner, Code, Locals int32
	// Tag are low bits of Code and Locals that are no part of the address.
	Tag uint64

	Attributes Attributes

	// Task is, from the PyThreadState, a pointer to the asyncio task that runs, 0
	// while none does: 3.14 and later with _asyncio loaded, else the offset is 0.
	Task int32
}

// Generator is the value of Owner in frames of generators and coroutines.
const Generator = 1

// Offsets of CPython's objects and types (object.h, cpython/object.h), the same
// in all versions that are read.
const (
	ObjectType    = 8   // pointer to the object's type
	TypeName      = 24  // pointer to a string that ends with 0
	TypeBasicSize = 32  // 8 bytes: where the object's own fields end
	TypeFlags     = 168 // 8 bytes
)

// Attributes is where an object has the attributes that are in no field of its
// own, if its type has Flag. They are values in an order that the type's keys
// tell, or they are in a dict.
type Attributes struct {
	Flag uint64 // of the type's flags
	Dict int32  // from the object: pointer to a dict, 0 while Values are used
	// Values is, from the object, a pointer to the values, 0 while a dict is
	// used: 3.11 and 3.12. If it is also Dict (3.12), the lowest bit tells: set,
	// the address is 1 higher; clear, it is a dict's.
	// From 3.13 on it is 0: the values are behind the object, TypeBasicSize bytes
	// into it, and count if their byte at Valid is 1.
	Values int32
	Valid  int32
	First  int32 // from the values: the first of them, 8 bytes each, 0 if not set
	// Capacity is, from the values, a byte that says how many there may be. With
	// 3.11 and 3.12 it says how many are set, and the bytes below it which those
	// are, by index, in descending addresses.
	Capacity int32
}

const (
	managedDict  = 1 << 4 // Py_TPFLAGS_MANAGED_DICT
	inlineValues = 1 << 2 // Py_TPFLAGS_INLINE_VALUES
)

// offsets is what is needed to find and to check the layout, besides it.
type offsets struct {
	interpreters             uint64 // in _PyRuntime: first PyInterpreterState
	nextInterpreter          uint64 // in PyInterpreterState
	threads                  uint64 // in PyInterpreterState: first PyThreadState
	next, interp, id, kernel uint64 // in PyThreadState; id is pthread_t, kernel the kernel's thread id
	Layout
}

// tables are by the minor version; offsets of its headers, which a build for
// debugging changes.
var tables = map[int]offsets{
	11: {interpreters: 40, threads: 16, next: 8, interp: 16, id: 152, kernel: 160, Layout: Layout{
		Frame: native.Path{56, 8}, Previous: 48, Owner: 69, Code: 32, Locals: 72,
		Attributes: Attributes{Flag: managedDict, Dict: -24, Values: -32, Capacity: -2}}},
	12: {interpreters: 40, threads: 72, next: 8, interp: 16, id: 136, kernel: 144, Layout: Layout{
		Frame: native.Path{56, 0}, Previous: 8, Owner: 70, Locals: 72,
		Attributes: Attributes{Flag: managedDict, Dict: -24, Values: -24, Capacity: -2}}},
}

// debugOffsets reads _Py_DebugOffsets (pycore_debug_offsets.h), which begins
// _PyRuntime from 3.13 on.
func debugOffsets(m *native.Memory, runtime uint64, minor int) (o offsets, err error) {
	// Numbers of 8 bytes, by their order in each version.
	index := map[int]struct{ thread, frame, object, kind int }{
		13: {19, 28, 44, 46},
		14: {22, 31, 50, 52},
	}[minor]
	at := func(i int) uint64 { return m.Word(runtime + 8*uint64(i)) }
	if string(m.Read(runtime, 8)) != "xdebugpy" || at(1)>>16 != uint64(3<<8|minor) {
		return o, errors.New("_PyRuntime does not begin with its version's debug offsets")
	}
	if at(2) != 0 {
		return o, errors.New("free-threaded")
	}
	o = offsets{interpreters: at(5), nextInterpreter: at(8), threads: at(9),
		next: at(index.thread + 2), interp: at(index.thread + 3), id: at(index.thread + 5), kernel: at(index.thread + 6)}
	const most = 1 << 14 // bytes of a frame or a PyThreadState
	small := func(i int) int32 {
		if at(i) > most {
			err = errors.New("its debug offsets are out of bounds")
		}
		return int32(min(at(i), most))
	}
	o.Frame = native.Path{small(index.thread + 4)}
	o.Previous, o.Code, o.Locals, o.Owner = small(index.frame+1), small(index.frame+2), small(index.frame+4), small(index.frame+5)
	if minor >= 14 {
		o.Tag = 3
	}
	o.Attributes = Attributes{Flag: inlineValues, Dict: -24, Valid: 3, First: 8}
	if at(index.object+1) != ObjectType || at(index.kind+1) != TypeName || at(index.kind+3) != TypeFlags {
		err = errors.New("objects have an unknown shape")
	}
	return o, err
}
