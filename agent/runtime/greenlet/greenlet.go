// Package greenlet reads in a CPython process where a thread keeps its current
// greenlet, which gevent and eventlet run their handlers in. It asks nothing of
// CPython's own layout, which differs by version, and refuses greenlet before 2.
package greenlet

import (
	"debug/elf"
	"errors"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

// Layout tells where things are.
type Layout struct {
	// State is the path to the thread's ThreadState (greenlet's TThreadState.hpp).
	// Its last step reads 1 in a thread that has used no greenlet yet, and 0 in
	// one that is ending.
	State native.Path
	// Main and Current are offsets in it, in bytes, of pointers to greenlets: the
	// one that the thread began with, and the one that runs.
	Main, Current int32
	// Type is the address of PyGreenlet_Type: a greenlet's type, 8 bytes into it,
	// is this or derived from it.
	Type uint64
}

// Offsets of CPython's objects (object.h, cpython/object.h), the same in 3.7 to
// 3.14 where it is not free-threaded.
const (
	objectType = 8
	typeBase   = 256
	maxBases   = 16
)

const (
	variable  = "g_thread_state_global" // static, so in .symtab only
	blockSize = 16                      // a word that says whether it is initialised, and the variable
)

const tries = 8 // greenlets come and go while they are read

// ErrAbsent says that the process has not loaded greenlet.
var ErrAbsent = errors.New("greenlet is not loaded")

var errBefore2 = errors.New("greenlet before 2.0: no thread-local state")

// Read reads greenlet in a process, whose directory in the proc file system is given.
// What it returns was checked against the threads that use greenlets now; whoever
// follows it compares Type each time.
func Read(dir string, a *reading.Account) (*Layout, error) {
	p, err := native.Open(dir, a)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	module, err := p.Library("_greenlet*.so")
	if err != nil {
		return nil, ErrAbsent
	}
	libc, err := p.LibC()
	if err != nil {
		return nil, err
	}
	l := &Layout{Main: 0, Current: 8, Type: module.Address("PyGreenlet_Type")}
	if l.Type == 0 {
		return nil, errors.New("greenlet does not export PyGreenlet_Type")
	}
	offset := uint64(0)
	if s, ok := module.Symbol(variable); ok && elf.ST_TYPE(s.Info) == elf.STT_TLS {
		offset = s.Value
	} else if t := module.TLS(); t == nil {
		return nil, errBefore2
	} else if t.Memsz != blockSize {
		return nil, errors.New("greenlet is stripped, and has more thread-local variables than known")
	} else {
		offset = 8
	}
	if l.State, err = p.TLSPath(libc, module, offset); err != nil {
		return nil, err
	}
	for range tries {
		p.Forget()
		var threads []uint64
		if threads, err = libc.Threads(p.Memory); err != nil {
			return nil, err
		}
		if _, err = l.check(p.Memory, threads); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// check looks at the state of every thread that has used greenlets: it must begin
// with two of them. found says whether there is such a thread: many applications
// load greenlet and never use it, or do so later.
func (l *Layout) check(m *native.Memory, threads []uint64) (found bool, err error) {
	for _, t := range threads {
		state := l.State.Follow(m, t)
		if state <= 1 || m.Read(state, 16) == nil {
			continue // none yet, or no block of the module's variables
		}
		if !l.Greenlet(m, m.Word(state+uint64(l.Main))) || !l.Greenlet(m, m.Word(state+uint64(l.Current))) {
			return false, errors.New("greenlet's thread state has an unknown shape")
		}
		found = true
	}
	return found, nil
}

// Greenlet says whether there is one at an address.
func (l *Layout) Greenlet(m *native.Memory, addr uint64) bool {
	if addr == 0 || addr%8 != 0 {
		return false
	}
	t := m.Word(addr + objectType)
	for range maxBases {
		if t == l.Type {
			return true
		}
		if t == 0 {
			return false
		}
		t = m.Word(t + typeBase)
	}
	return false
}
