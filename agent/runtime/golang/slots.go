package golang

import (
	"bytes"
	"encoding/binary"
)

// Slot is where a function keeps a pointer, in the stack of the goroutine that
// is in it.
type Slot struct {
	// Frame is the slot's distance in bytes from the value that the frame
	// pointer has while the function runs, which is what the frames it calls
	// have saved.
	Frame int32
	// Live are the return addresses within the function at which the slot has
	// been written. All of the function if Always.
	Live   []Range
	Always bool
	// Unique is false if other slots of the function look the same: the kernel
	// side must find out which it is by consensus of several calls.
	Unique bool
	// Entries are the ways in which the function is called by the first function
	// of a goroutine: then the slot is at a constant distance from the stack's
	// end. Without any, it is found by frame pointers.
	Entries []Entry
}

// Entry is a call by a goroutine's first function, which begins at Start. If the
// goroutine began there, the word at stack.hi − Return is ReturnPC exactly while
// the call lasts: then the slot is at stack.hi − Slot. Another goroutine may have
// the same word there, of one that had its stack before. Distances are in bytes.
type Entry struct {
	Start    uint64
	ReturnPC uint64 // in the goroutine's first function, behind the call
	Return   uint32
	Slot     uint32
	// Inside is the distance of the word that returns into the called function,
	// from whatever it calls: to be looked up in Live. 0 if it is not constant.
	Inside uint32
}

// argument is a part of an argument of one word or less.
type argument struct {
	off  int // from the arguments' beginning, in bytes
	size int
}

// arguments of a function, as tracebacks print them: one for each word, with
// what belongs to the same argument (a slice's three, for instance) in one list.
func (m *module) arguments(f function) (args [][]argument) {
	at := m.funcdata(f, dataArgs)
	b := m.read(at, 64)
	depth := 0
	add := func(a argument) {
		if depth == 0 {
			args = append(args, []argument{a})
		} else {
			args[len(args)-1] = append(args[len(args)-1], a)
		}
	}
	for i := 0; i+1 < len(b); i++ {
		switch b[i] {
		case 0xff: // the end
			return args
		case 0xfe: // an aggregate begins
			if depth == 0 {
				args = append(args, nil)
			}
			depth++
		case 0xfd:
			if depth--; depth < 0 {
				return nil
			}
		case 0xfc, 0xfb: // more than is printed
			return args
		default:
			add(argument{int(b[i]), int(b[i+1])})
			i++
		}
	}
	return nil
}

// argumentSlot derives where a function keeps its n-th argument, the receiver
// being the first, which must be a single pointer. Arguments come in registers;
// each has a slot in the caller's frame, to which the function writes it before
// it calls others, if it needs it again. Funcdata says from where on it has.
func (m *module) argumentSlot(f function, n int) (Slot, Reason) {
	args := m.arguments(f)
	if n >= len(args) || len(args[n]) != 1 || args[n][0].size != 8 {
		return Slot{}, NoArgument
	}
	off := args[n][0].off
	s := Slot{Frame: m.arch.arguments + int32(off), Unique: true}
	if m.arch.frameSizeCounts {
		_, size := m.frame(f, f.Low)
		s.Frame += size
	}
	s.Live = m.argumentLive(f, args, off)
	if len(s.Live) == 0 {
		return m.onlyLocal(f)
	}
	s.Always = len(s.Live) == 1 && s.Live[0] == f.Range
	return s, Fits
}

const maxLive = 8

// argumentLive are the ranges of code in which the argument at an offset has
// been written to its slot; ranges of return addresses, so each begins one byte
// later than the code.
func (m *module) argumentLive(f function, args [][]argument, off int) (live []Range) {
	at := m.funcdata(f, dataArgLive)
	head := m.read(at, 1)
	if at == 0 || head == nil {
		// Without registers all are in their slots, from the beginning on.
		return []Range{f.Range}
	}
	start := int(head[0])
	if off < start {
		return []Range{f.Range}
	}
	index := uint64(0)
	for _, a := range args {
		for _, part := range a {
			if part.off >= start && part.off < off {
				index++
			}
		}
	}
	first := int32(0) // what is said of the prologue
	for r, v := range m.values(f, m.pcdata(f, tableArgLive)) {
		if r.Low == f.Low {
			first = v
		} else if first == -1 && len(live) == 1 && live[0].Low == f.Low+1 {
			live = live[:0] // nothing was said yet: something follows that says it
		}
		if v > 0 {
			b := m.read(at+uint64(v)+index/8, 1)
			if b == nil || b[0]>>(index%8)&1 == 0 {
				continue
			}
		}
		if n := len(live); n > 0 && live[n-1].High == r.Low+1 {
			live[n-1].High = r.High + 1
		} else if n < maxLive {
			live = append(live, Range{r.Low + 1, r.High + 1})
		} else {
			return nil
		}
	}
	if len(live) == 1 && live[0].Low == f.Low+1 && live[0].High == f.High+1 {
		return []Range{f.Range}
	}
	return live
}

// onlyLocal is the slot of the only pointer that a function keeps among its
// variables: the argument that it has no slot for elsewhere, as Go 1.21 compiles
// clientStream.doRequest. Nothing says that it is this argument, so it is not
// Unique.
func (m *module) onlyLocal(f function) (slot Slot, r Reason) {
	at := m.funcdata(f, dataLocals)
	n, bits := uint64(m.half(at)), uint64(m.half(at+4))
	if at == 0 || n == 0 || n > 256 || bits == 0 || bits > 1024 {
		return Slot{}, ArgumentNotKept
	}
	only, live := int64(-1), map[int32]bool{}
	for k := range n {
		b := m.read(at+8+k*((bits+7)/8), (bits+7)/8)
		for i := uint64(0); b != nil && i < bits; i++ {
			if b[i/8]>>(i%8)&1 == 0 {
				continue
			}
			if only >= 0 && only != int64(i) {
				return Slot{}, ArgumentNotKept
			}
			only, live[int32(k)] = int64(i), true
		}
	}
	if only < 0 {
		return Slot{}, ArgumentNotKept
	}
	slot = m.local(f, int32(8*(only-int64(bits))))
	slot.Live, slot.Always = nil, false
	for r, v := range m.values(f, m.pcdata(f, tableStackMap)) {
		if live[v] && len(slot.Live) < maxLive {
			slot.Live = append(slot.Live, Range{r.Low + 1, r.High + 1})
		}
	}
	return slot, Fits
}

// object is a variable of a function that has its address taken, or that it uses
// as a closure: the garbage collector must know where it is.
type object struct {
	off      int32 // from the end of the variables
	size     uint64
	pointers uint64 // bytes from its beginning that hold pointers
	mask     []byte // a bit for each word of these
}

const maxObjects = 1024

func (m *module) objects(f function) (list []object) {
	at := m.funcdata(f, dataStackObject)
	n := m.word(at)
	if at == 0 || n > maxObjects {
		return nil
	}
	for i := range n {
		b := m.read(at+8+16*i, 16)
		if b == nil {
			return nil
		}
		word := func(k int) uint32 { return binary.LittleEndian.Uint32(b[4*k:]) }
		o := object{off: int32(word(0)), size: uint64(word(1)), pointers: uint64(word(2))}
		if o.off >= 0 || o.pointers > o.size || o.size > 1<<16 {
			continue // a result in the caller's frame, or described by a program
		}
		// A copy: what is read holds the chunk around it.
		if o.mask = bytes.Clone(m.read(m.rodata+uint64(word(3)), max(1, (o.pointers/8+7)/8))); o.mask != nil {
			list = append(list, o)
		}
	}
	return list
}

// local is the slot of what is at an offset from the end of a function's variables.
func (m *module) local(f function, off int32) Slot {
	s := Slot{Frame: m.arch.locals + off, Live: []Range{f.Range}, Always: true}
	if m.arch.frameSizeCounts {
		_, size := m.frame(f, f.Low)
		s.Frame += size
	}
	return s
}

// objectSlot derives where a function keeps a variable of a type that it takes
// the address of; inner is the offset of what is wanted in it.
func (m *module) objectSlot(f function, t typ, inner uint64) (slot Slot, r Reason) {
	pointers := m.word(t.addr + 8)
	mask := m.read(m.pointer(t.addr+32), max(1, (pointers/8+7)/8))
	found := 0
	for _, o := range m.objects(f) {
		if o.size == t.size && o.pointers == pointers && mask != nil && bytes.Equal(o.mask, mask) {
			found++
			slot = m.local(f, o.off+int32(inner))
		}
	}
	slot.Unique = found == 1
	if found == 0 {
		return slot, NoStackObject
	}
	return slot, Fits
}

// closureSlots are the slots of the pointers that a function's closures have,
// those it defers above all. They are written before anything is called. Which
// of them is which, nothing says: it must show by what they point to.
func (m *module) closureSlots(f function) (slots []Slot) {
	for _, o := range m.objects(f) {
		if len(o.mask) == 0 || o.mask[0]&1 != 0 { // begins with the address of code
			continue
		}
		for i := uint64(1); i < min(o.pointers/8, 16); i++ {
			if o.mask[i/8]>>(i%8)&1 != 0 && len(slots) < maxClosureSlots {
				slots = append(slots, m.local(f, o.off+int32(8*i)))
			}
		}
	}
	return slots
}

const maxClosureSlots = 16

// Callers of a function that is not exported are in its own package, and the
// linker lays packages out one after the other.
const near = 3 << 20

const maxEntries = 8

// setEntries finds the calls of each function, and with them the distances of
// its slots from the end of a goroutine's stack, as they are if the caller is
// the goroutine's first function. That it is, the goroutine itself says (startpc).
func (m *module) setEntries(slots []slotOf) {
	targets := map[uint64][]slotOf{}
	var spans []Range
	for _, s := range slots {
		targets[s.in.Low] = append(targets[s.in.Low], s)
		spans = append(spans, Range{max(m.text, s.in.Low-min(near, s.in.Low)), min(m.etext, s.in.High+near)})
	}
	for _, r := range union(spans) {
		m.each(r.Low, r.High-r.Low, 8, func(at uint64, b []byte) bool {
			m.arch.calls(at, b, func(after, target uint64) {
				if !m.account.Work(1) {
					return
				}
				for _, s := range targets[target] {
					m.addEntry(s.slot, s.in, after)
				}
			})
			return true
		})
	}
}

// slotOf is a slot of a function.
type slotOf struct {
	in   function
	slot *Slot
}

func (m *module) addEntry(s *Slot, f function, after uint64) {
	caller, ok := m.at(after - 1)
	if !ok || len(s.Entries) >= maxEntries {
		return
	}
	depth, _ := m.frame(caller, after-1)
	_, size := m.frame(f, f.Low)
	if depth < 0 || size <= 0 || depth > 1<<16 || size > 1<<16 {
		return
	}
	e := m.arch.entry(depth, size, s.Frame)
	e.Start, e.ReturnPC = caller.Low, after
	for _, known := range s.Entries {
		if known == e {
			return
		}
	}
	s.Entries = append(s.Entries, e)
}

// union of ranges, in order.
func union(list []Range) (out []Range) {
	for len(list) > 0 {
		low := 0
		for i := range list {
			if list[i].Low < list[low].Low {
				low = i
			}
		}
		r := list[low]
		list = append(list[:low], list[low+1:]...)
		if n := len(out); n > 0 && r.Low <= out[n-1].High {
			out[n-1].High = max(out[n-1].High, r.High)
		} else {
			out = append(out, r)
		}
	}
	return out
}
