package golang

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// function is one of the program's.
type function struct {
	Range
	name   string
	pkg    string // path of its package
	record uint64 // address of its description
}

// findFunctions finds all functions whose names end so. A suffix begins with the
// last elements of its package's path: grpc/internal/transport.(*x).f is found
// under any path that ends in it, a vendored or a copied package's.
func (m *module) findFunctions(suffixes []string) map[string][]function {
	const tail = 8 // bytes of a name that choose what is compared in full
	tails := map[[tail]byte][]string{}
	for _, s := range suffixes {
		k := [tail]byte([]byte(s[len(s)-tail:]))
		tails[k] = append(tails[k], s)
	}
	type match struct{ name, suffix string }
	matches := map[uint32]match{}
	var pending []byte // the beginning of a name that the next piece ends
	m.each(m.names.addr, m.names.len, 0, func(at uint64, b []byte) bool {
		o := 0
		for {
			i := bytes.IndexByte(b[o:], 0)
			if !m.account.Work(1) {
				return false
			}
			if i < 0 {
				if len(pending) <= maxName {
					pending = append(pending, b[o:]...)
				}
				return true
			}
			name, off := b[o:o+i], uint32(at-m.names.addr)+uint32(o)
			if len(pending) > 0 {
				off -= uint32(len(pending))
				name = append(pending, name...)
				pending = pending[:0]
			}
			if len(name) >= tail && len(name) <= maxName {
				for _, s := range tails[[tail]byte(name[len(name)-tail:])] {
					if rest, ok := bytes.CutSuffix(name, []byte(s)); ok && (len(rest) == 0 || rest[len(rest)-1] == '/') && len(matches) < 256 {
						matches[off] = match{string(name), s}
					}
				}
			}
			o += i + 1
		}
	})
	found := map[string][]function{}
	if len(matches) == 0 {
		return found
	}
	// Some names are of functions that exist only inlined, so all are looked at.
	entries, records := window{m: m.image, size: 128 << 10}, window{m: m.image, size: 128 << 10}
	for i := range m.nfunc {
		e := entries.read(m.ftab.addr+8*i, 16)
		if e == nil {
			break
		}
		at := m.functions.addr + uint64(binary.LittleEndian.Uint32(e[4:]))
		r := records.read(at, 8)
		if r == nil {
			break
		}
		if n, ok := matches[binary.LittleEndian.Uint32(r[4:])]; ok {
			f := function{name: n.name, record: at,
				Range: Range{m.text + uint64(binary.LittleEndian.Uint32(e)), m.text + uint64(binary.LittleEndian.Uint32(e[8:]))}}
			f.pkg = packageOf(n.name)
			if f.Low < f.High && f.High <= m.etext && len(found[n.suffix]) < maxCopies {
				found[n.suffix] = append(found[n.suffix], f)
			}
		}
	}
	return found
}

// maxCopies is how many functions of a name are looked at: copies of a package, and types of
// a name that several packages have.
const maxCopies = 16

// packageOf is the path of the package that declares a method.
func packageOf(name string) string {
	slash := strings.LastIndexByte(name[:max(strings.IndexByte(name, '('), 0)], '/') + 1
	if i := strings.IndexByte(name[slash:], '.'); i >= 0 {
		return name[:slash+i]
	}
	return ""
}

// at finds the function that an address is in.
func (m *module) at(pc uint64) (function, bool) {
	if pc < m.text || pc >= m.etext {
		return function{}, false
	}
	off := uint32(pc - m.text)
	lo, hi := uint64(0), m.nfunc // the last entry that is not above off
	for lo < hi {
		mid := (lo + hi) / 2
		if m.half(m.ftab.addr+8*mid) <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return function{}, false
	}
	e := m.read(m.ftab.addr+8*(lo-1), 16)
	if e == nil {
		return function{}, false
	}
	return function{record: m.functions.addr + uint64(binary.LittleEndian.Uint32(e[4:])),
		Range: Range{m.text + uint64(binary.LittleEndian.Uint32(e)), m.text + uint64(binary.LittleEndian.Uint32(e[8:]))}}, true
}

// Offsets in a function's description, the same in Go 1.20 to 1.27.
const (
	recordStack     = 16 // pcsp
	recordTables    = 28 // npcdata
	recordFuncData  = 43 // nfuncdata
	recordSize      = 44
	tableStackMap   = 1 // pcdata: which of the maps of local pointers holds
	tableArgLive    = 3 // pcdata: which arguments are in their slots
	dataArguments   = 0
	dataLocals      = 1
	dataStackObject = 2
	dataArgs        = 5
	dataArgLive     = 6
)

// funcdata is the address of one of a function's records; 0 without.
func (m *module) funcdata(f function, i uint64) uint64 {
	b := m.read(f.record, recordSize)
	if b == nil || i >= uint64(b[recordFuncData]) {
		return 0
	}
	tables := uint64(binary.LittleEndian.Uint32(b[recordTables:]))
	if tables > 64 {
		return 0
	}
	d := m.read(f.record+recordSize+4*(tables+i), 4)
	if d == nil || binary.LittleEndian.Uint32(d) == ^uint32(0) {
		return 0
	}
	return m.gofunc + uint64(binary.LittleEndian.Uint32(d))
}

// pcdata is the offset of one of a function's tables in pctab; 0 without.
func (m *module) pcdata(f function, i uint64) uint32 {
	if i >= uint64(m.half(f.record+recordTables)) {
		return 0
	}
	return m.half(f.record + recordSize + 4*i)
}

// values yields what a table of pctab says of a function, range by range.
func (m *module) values(f function, table uint32) func(yield func(Range, int32) bool) {
	return func(yield func(Range, int32) bool) {
		if table == 0 || uint64(table) >= m.pctab.len {
			return
		}
		w := window{m: m.image, size: 2 << 10}
		at, pc, v := m.pctab.addr+uint64(table), f.Low, int32(-1)
		varint := func() (uint32, bool) {
			b := w.read(at, 1)
			for n := uint64(1); b != nil && n <= 5; n++ {
				if b[n-1]&0x80 == 0 {
					u, _ := binary.Uvarint(b)
					at += n
					return uint32(u), true
				}
				b = w.read(at, n+1)
			}
			return 0, false
		}
		for first := true; pc < f.High; first = false {
			d, ok := varint()
			if !ok || d == 0 && !first {
				return
			}
			v += int32(-(d & 1) ^ (d >> 1))
			n, ok := varint()
			if !ok || n == 0 {
				return
			}
			next := pc + uint64(n)*uint64(m.arch.quantum)
			if !yield(Range{pc, min(next, f.High)}, v) {
				return
			}
			pc = next
		}
	}
}

// frame is how far the stack pointer is below its value at a function's entry,
// at pc, in bytes; -1 if that is not known. Maximum is that of all its code.
func (m *module) frame(f function, pc uint64) (here, maximum int32) {
	here = -1
	for r, v := range m.values(f, m.half(f.record+recordStack)) {
		if pc >= r.Low && pc < r.High {
			here = v
		}
		maximum = max(maximum, v)
	}
	return here, maximum
}
