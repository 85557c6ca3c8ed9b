package golang

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// module is what the runtime knows of an executable: Go's moduledata, as far as
// it is needed. Addresses are the executable's.
type module struct {
	*image
	arch *arch

	names, pctab, functions, ftab slice // of pclntab; functions hold ftab, too
	nfunc                         uint64
	text, etext                   uint64
	types, etypes                 uint64
	descriptors                   uint64 // Go 1.27: end of the types that have a link; else 0
	typelinks, itablinks          slice  // before Go 1.27
	itabs, eitabs                 uint64 // Go 1.27
	rodata, gofunc                uint64

	addr, table uint64 // of moduledata, of pclntab
}

type slice struct{ addr, len uint64 }

const (
	maxFunctions = 4 << 20
	maxTypes     = 2 << 20
	maxItabs     = 1 << 20
)

// openModule finds pclntab, and moduledata by its first word, which is pclntab's
// address.
func openModule(m *image) (*module, Reason) {
	a := arches[m.elf.Machine]
	if a == nil {
		return nil, UnknownArchitecture
	}
	reason := NoFunctionTable
	for at := range m.tables() {
		h := m.read(at, 72)
		if !isTable(h) || h[6] != a.quantum {
			continue
		}
		reason = NoModule
		for found := range m.words(at) {
			d := m.read(found, 8*72)
			if d == nil {
				if s := m.segment(found, 8); s != nil {
					d = m.read(found, s.size-(found-s.addr)&^7)
				}
			}
			mod := &module{image: m, arch: a, addr: found, table: at, nfunc: binary.LittleEndian.Uint64(h[8:])}
			if mod.decode(at, d) {
				return mod, Fits
			}
		}
	}
	return nil, reason
}

// isTable: a pcHeader has a magic number that grows down with its version,
// two zeros, the size of an instruction and that of a pointer.
func isTable(h []byte) bool {
	return len(h) >= 72 && binary.LittleEndian.Uint32(h) >= 0xfffffff1 && binary.LittleEndian.Uint32(h) <= 0xfffffff8 &&
		h[4] == 0 && h[5] == 0 && (h[6] == 1 || h[6] == 4) && h[7] == 8
}

// tables yields where pclntab may be: by its section's name, which strip keeps,
// else anywhere.
func (m *image) tables() func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
			if s, ok := m.elf.Section(name); ok && !yield(s.Addr) {
				return
			}
		}
		for _, quantum := range []byte{1, 4} {
			if !m.search([]byte{0xff, 0xff, 0xff, 0, 0, quantum, 8}, 1, func(*segment) bool { return true }, yield) {
				return
			}
		}
	}
}

// words yields where the address of at is kept: in the sections that have
// moduledata in known versions, then in all that may be written.
func (m *image) words(at uint64) func(yield func(uint64) bool) {
	var b [8]byte
	if m.relocated() {
		at += m.bias
	}
	binary.LittleEndian.PutUint64(b[:], at)
	return func(yield func(uint64) bool) {
		for _, name := range []string{".go.module", ".noptrdata"} {
			if s, ok := m.elf.Section(name); ok && s.Type == elf.SHT_PROGBITS &&
				!m.searchRange(b[:], 0, s.Addr, s.Size, yield) {
				return
			}
		}
		m.search(b[:], 0, func(s *segment) bool { return !s.code }, yield)
	}
}

// search yields the addresses, a multiple of 8, at which pattern follows after
// skip bytes.
func (m *image) search(pattern []byte, skip int, in func(*segment) bool, yield func(uint64) bool) bool {
	for i := range m.segs {
		if s := &m.segs[i]; in(s) && !m.searchRange(pattern, skip, s.addr, s.size, yield) {
			return false
		}
	}
	return true
}

func (m *image) searchRange(pattern []byte, skip int, addr, n uint64, yield func(uint64) bool) (more bool) {
	more = true
	m.each(addr, n, len(pattern)-1, func(at uint64, b []byte) bool {
		for o := 0; ; {
			i := bytes.Index(b[o:], pattern)
			if i < 0 {
				return true
			}
			if !m.account.Work(1) {
				more = false
				return false
			}
			if a := at + uint64(o+i-skip); a%8 == 0 && !yield(a) {
				more = false
				return false
			}
			o += i + 1
		}
	})
	return more
}

// decode reads moduledata. Its first 24 words are the same in Go 1.20 to 1.27:
// pcHeader, six slices of pclntab, findfunctab, minpc, maxpc, text and etext.
// What follows is found by its shape, because words come and go there.
func (m *module) decode(table uint64, d []byte) bool {
	n := len(d) / 8
	if n < 60 {
		return false
	}
	p := func(i int) uint64 { return m.unbiased(d[8*i:]) }
	w := func(i int) uint64 { return binary.LittleEndian.Uint64(d[8*i:]) }
	sl := func(i int) slice {
		if w(i+1) != w(i+2) || m.segment(p(i), 1) == nil {
			return slice{}
		}
		return slice{p(i), w(i + 1)}
	}
	m.names, m.pctab, m.functions, m.ftab = sl(1), sl(10), sl(13), sl(16)
	m.text, m.etext = p(22), p(23)
	if m.names.addr <= table || m.pctab.addr <= m.names.addr || m.functions.addr <= m.pctab.addr ||
		m.ftab.addr != m.functions.addr || m.nfunc == 0 || m.nfunc > maxFunctions || m.ftab.len != m.nfunc+1 ||
		m.functions.len < 8*m.ftab.len || m.text >= m.etext || p(20) < m.text || p(21) > m.etext {
		return false
	}
	for _, s := range []slice{m.names, m.pctab, m.functions} {
		if m.segment(s.addr, s.len) == nil {
			return false
		}
	}
	// The end of ftab is the end of the code, unless code is in several pieces.
	if m.text+uint64(m.half(m.ftab.addr+8*m.nfunc)) > m.etext {
		return false
	}
	for i := 34; i < 42; i++ {
		if m.types = p(i); m.segment(m.types, 8) == nil {
			continue
		}
		// types, typedesclen, etypes, itaboffset, itabsize, rodata, gofunc
		if size := p(i+2) - m.types; p(i+2) > m.types && w(i+1) > 8 && w(i+1) < size && w(i+3) >= w(i+1) && w(i+3) < size &&
			w(i+4) > 0 && w(i+4) <= size-w(i+3) {
			m.etypes, m.descriptors = p(i+2), m.types+w(i+1)
			m.itabs = m.types + w(i+3)
			m.eitabs = m.itabs + w(i+4)
			m.rodata, m.gofunc = p(i+5), p(i+6)
			if m.isItab(m.itabs) {
				return true
			}
		}
		// types, etypes, rodata, gofunc, …, typelinks, itablinks
		m.descriptors, m.itabs, m.eitabs = 0, 0, 0
		if m.etypes, m.rodata, m.gofunc = p(i+1), p(i+2), p(i+3); m.etypes <= m.types {
			continue
		}
		for k := i + 4; k < i+20 && k+6 <= n; k++ {
			m.typelinks, m.itablinks = sl(k), sl(k+3)
			if m.typelinks.len > 0 && m.typelinks.len < maxTypes && m.itablinks.len > 0 && m.itablinks.len < maxItabs &&
				m.isItab(m.pointer(m.itablinks.addr)) {
				return true
			}
		}
	}
	return false
}

// isItab: an itab begins with an interface's type and another.
func (m *module) isItab(at uint64) bool {
	inter, ok := m.typeAt(m.pointer(at))
	if !ok || inter.kind != kindInterface {
		return false
	}
	_, ok = m.typeAt(m.pointer(at + 8))
	return ok
}
