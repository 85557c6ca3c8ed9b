package native

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"slices"
)

// LibC is what glibc says of itself to debuggers: offsets and sizes in bytes, in
// its variables _thread_db_*, which are there when its symbols are stripped
// (nptl_db/structs.def). musl has none.
type LibC struct {
	Specific uint64 // in struct pthread: pointers to blocks of keys' values
	KeyData  uint64 // in a key's entry: its value
	KeySize  uint64 // of an entry
	Block    uint64 // of entries
	TID      uint64 // in struct pthread: 4 bytes
	DTVP     uint64 // in struct pthread: pointer to the vector of thread-local blocks
	DTVSize  uint64 // of an entry of the vector, which begins with the block's address
	list     uint64 // in struct pthread: its entry in a list of all threads
	next     uint64 // in an entry of the list
	stacks   [2]uint64
}

const (
	maxBlocks  = 32 // of keys: PTHREAD_KEY_1STLEVEL_SIZE
	maxModule  = 1 << 16
	maxThreads = 1 << 16
	maxStatic  = 1 << 20 // bytes of thread-local variables below the thread pointer
)

var errNoGlibc = errors.New("no glibc that describes itself to debuggers (_thread_db_*)")

// LibC reads the descriptors.
func (p *Process) LibC() (*LibC, error) {
	var module *Module
	for _, pattern := range []string{"libc.so.6", "libc-2.*.so", "libpthread.so.0", "libpthread-2.*.so"} { // the last two before 2.34
		if m, err := p.Library(pattern); err == nil && m.Address("_thread_db_pthread_specific") != 0 {
			module = m
			break
		}
	}
	if module == nil {
		return nil, errNoGlibc
	}
	size := func(name string) uint64 { return uint64(p.Half(module.Address("_thread_db_sizeof_" + name))) }
	// A descriptor is three numbers of 4 bytes: the bits of an element, how many
	// there are, and the offset.
	offset := func(name string) uint64 { return uint64(p.Half(module.Address("_thread_db_"+name) + 8)) }
	l := &LibC{
		Specific: offset("pthread_specific"),
		KeyData:  offset("pthread_key_data_data"),
		KeySize:  size("pthread_key_data"),
		TID:      offset("pthread_tid"),
		DTVP:     offset("pthread_dtvp"),
		DTVSize:  uint64(p.Half(module.Address("_thread_db_dtv_dtv")) / 8),
		list:     offset("pthread_list"),
		next:     offset("list_t_next"),
	}
	l.Block = size("pthread_key_data_level2")
	if ld, err := p.Library("ld-linux-x86-64.so.2"); err == nil {
		if global := ld.Address("_rtld_global"); global != 0 {
			for i, name := range []string{"rtld_global__dl_stack_used", "rtld_global__dl_stack_user"} {
				if o := offset(name); o != 0 && l.list != 0 {
					l.stacks[i] = global + o
				}
			}
		}
	}
	return l, l.check()
}

// check refuses numbers with which reads would not be bounded.
func (l *LibC) check() error {
	const most = 1 << 14 // bytes of struct pthread
	if l.KeySize < 8 || l.KeySize > 64 || l.KeyData == 0 || l.KeyData > l.KeySize-8 || l.Block < l.KeySize || l.Block > pageSize ||
		l.Specific == 0 || l.Specific > most || l.TID == 0 || l.TID > most || l.DTVP == 0 || l.DTVP > most || l.DTVSize < 8 || l.DTVSize > 64 {
		return errNoGlibc
	}
	return nil
}

// Owner is a thread of which a runtime tells what belongs to it.
type Owner struct {
	Thread uint64 // pointer
	TID    uint32 // as the process sees it
	Value  uint64 // what it keeps under the key that is looked for
}

// KeyPath is the path to a thread's value under the one pthread key under which
// every thread has a value of an owner that says to be it, or nothing yet, and
// most have theirs. Several may say so: CPython 3.11 enters a new thread as the
// one that makes it.
func (l *LibC) KeyPath(m *Memory, owners []Owner) (Path, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	perBlock := l.Block / l.KeySize
	values := map[uint64][]uint64{} // by thread
	for _, o := range owners {
		if o.Value != 0 && m.Half(o.Thread+l.TID) == o.TID { // else it has ended, or was never a thread
			values[o.Thread] = append(values[o.Thread], o.Value)
		}
	}
	threads := len(values)
	same, other := map[uint64]int{}, map[uint64]bool{}
	for thread, own := range values {
		for block := range uint64(maxBlocks) {
			b := m.Word(thread + l.Specific + 8*block)
			if b == 0 {
				continue
			}
			for i := range perBlock {
				key := block*perBlock + i
				if v := m.Word(b + i*l.KeySize + l.KeyData); slices.Contains(own, v) {
					same[key]++
				} else if v != 0 {
					other[key] = true
				}
			}
		}
	}
	if threads == 0 {
		return nil, errors.New("its list of threads does not fit glibc's")
	}
	var keys []uint64
	for key, n := range same {
		if !other[key] && 2*n > threads {
			keys = append(keys, key)
		}
	}
	if len(keys) != 1 {
		return nil, fmt.Errorf("%d pthread keys hold what belongs to a thread, of %d threads", len(keys), threads)
	}
	return Path{int32(l.Specific + 8*(keys[0]/perBlock)), int32(keys[0]%perBlock*l.KeySize + l.KeyData)}, nil
}

// Threads are the pointers of all threads, in glibc's own lists of their stacks.
func (l *LibC) Threads(m *Memory) ([]uint64, error) {
	if l.stacks == ([2]uint64{}) {
		return nil, errors.New("glibc before 2.34: no list of threads")
	}
	var threads []uint64
	for _, head := range l.stacks {
		for at := m.Word(head + l.next); at != 0 && at != head && len(threads) < maxThreads; at = m.Word(at + l.next) {
			threads = append(threads, at-l.list)
		}
	}
	return threads, nil
}

// TLSPath is the path to the 8 bytes at an offset in a thread's block of a
// module's thread-local variables. A thread that began before the module was
// loaded, and has not used it, may have any value there.
func (p *Process) TLSPath(l *LibC, m *Module, offset uint64) (Path, error) {
	v, err := p.tls(m, offset, 0)
	if err != nil {
		return nil, err
	}
	return v.path(l), nil
}

// Variable is where threads have a thread-local variable of 8 bytes.
type Variable struct {
	Path Path
	// Module, if not 0, is the number of its block in the vector that a thread's DTVP
	// leads to; that has it only if its length, 16 bytes below, says so.
	Module uint32
}

// TLSVariable finds one that a module exports. What is in a block that is allocated when
// used is found with glibc only.
func (p *Process) TLSVariable(m *Module, name string) (v Variable, err error) {
	s, number, ok := m.symbol(name, elf.SHT_DYNSYM)
	if !ok || elf.ST_TYPE(s.Info) != elf.STT_TLS {
		return v, fmt.Errorf("%s: no thread-local variable %s", m.Name, name)
	}
	at, err := p.tls(m, s.Value, number)
	if err != nil {
		return v, err
	}
	var l *LibC
	if at.module != 0 {
		if l, err = p.LibC(); err != nil {
			return v, fmt.Errorf("%s: its variables are in a block of their own: %w", m.Name, err)
		}
	}
	return Variable{Path: at.path(l), Module: uint32(at.module)}, nil
}

// place is where a thread's variable is: at a distance from the thread pointer, or in the
// block of a module.
type place struct{ below, module, offset uint64 }

func (v place) path(l *LibC) Path {
	if v.module == 0 {
		return Path{int32(int64(v.below))}
	}
	return Path{int32(l.DTVP), int32(l.DTVSize * v.module), int32(v.offset)}
}

// tls finds the variable at an offset in a module's block, by what the dynamic linker has
// written for it: for the module itself, or for a symbol's number, which the linker may have
// found in another module.
func (p *Process) tls(m *Module, offset uint64, symbol uint32) (v place, err error) {
	t := m.TLS()
	if t == nil || t.Memsz < 8 || offset > t.Memsz-8 || t.Memsz > math.MaxInt32 {
		return v, fmt.Errorf("%s: no such thread-local variable", m.Name)
	}
	of := offset // from what a relocation is about to the variable
	if symbol != 0 {
		of = 0
	}
	v.offset = offset
	if m.own && t.Align > 0 && t.Align <= pageSize && t.Vaddr%t.Align == 0 {
		v.below = offset - (t.Memsz+t.Align-1)/t.Align*t.Align
	} else if at, _, ok := m.relocation(elf.R_X86_64_DTPMOD64, symbol); ok {
		if v.module = p.Word(at); symbol != 0 {
			v.offset = p.Word(at + 8) // R_X86_64_DTPOFF64
		}
	} else if at, addend, ok := m.relocation(elf.R_X86_64_TPOFF64, symbol); ok {
		v.below = p.Word(at) - uint64(addend) + of
	} else if at, addend, ok := m.relocation(elf.R_X86_64_TLSDESC, symbol); ok {
		// A function and its argument: the distance, or for a block that is
		// allocated when used, the address of its number (elf/tlsdesc.h).
		argument := p.Word(at + 8)
		if v.below = argument - uint64(addend) + of; int64(argument) > 0 {
			v.below, v.module = 0, p.Word(argument)
			if symbol != 0 {
				v.offset = p.Word(argument + 8)
			}
		}
	} else if symbol != 0 {
		return p.tls(m, offset, 0)
	}
	switch {
	case v.module > 0 && v.module < maxModule && v.offset < math.MaxInt32:
		return v, nil
	case v.module == 0 && int64(v.below) < 0 && int64(v.below) >= -maxStatic:
		return v, nil
	}
	return place{}, fmt.Errorf("%s: no relocation says where its thread-local variables are", m.Name)
}
