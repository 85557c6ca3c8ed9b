package golang

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Kinds of types that matter here, as reflect numbers them.
const (
	kindUint32    = 10
	kindUint64    = 11
	kindArray     = 17
	kindChan      = 18
	kindFunc      = 19
	kindInterface = 20
	kindMap       = 21
	kindPointer   = 22
	kindSlice     = 23
	kindString    = 24
	kindStruct    = 25
	kindUnsafe    = 26
)

const (
	maxFields = 1024
	maxName   = 1 << 12 // bytes; the names of generic types are long
)

// typ is a type of the program.
type typ struct {
	addr, size uint64
	kind, flag byte
	str        uint32 // its name's offset from types
}

const (
	flagUncommon  = 1
	flagExtraStar = 2
)

// typeAt decodes the type at an address; false where there is none.
func (m *module) typeAt(addr uint64) (typ, bool) {
	if addr < m.types || addr >= m.etypes || addr%8 != 0 {
		return typ{}, false
	}
	b := m.read(addr, 48)
	if b == nil {
		return typ{}, false
	}
	t := typ{addr, binary.LittleEndian.Uint64(b), b[23] & 31, b[20], binary.LittleEndian.Uint32(b[40:])}
	return t, t.kind > 0 && t.kind <= kindUnsafe && uint64(t.str) < m.etypes-m.types
}

// name is the string of a type, such as *http.conn: the package's name, not its
// path.
func (m *module) name(t typ) string { return string(m.rawName(t)) }

func (m *module) rawName(t typ) []byte {
	s, _ := m.text1(m.types + uint64(t.str))
	if t.flag&flagExtraStar != 0 {
		s = bytes.TrimPrefix(s, []byte("*"))
	}
	return s
}

// text1 reads a name: flags, the length as a varint, the bytes.
func (m *module) text1(addr uint64) (name []byte, flags byte) {
	b := m.read(addr, 4)
	if b == nil {
		return nil, 0
	}
	n, k := binary.Uvarint(b[1:])
	flags = b[0]
	if k <= 0 || n == 0 || n > maxName {
		return nil, flags
	}
	return m.read(addr+1+uint64(k), n), flags
}

// elem is the type that a pointer, slice, array or channel is of, and a map's
// value.
func (m *module) elem(t typ) (typ, bool) {
	switch t.kind {
	case kindPointer, kindSlice, kindArray, kindChan:
		return m.typeAt(m.pointer(t.addr + 48))
	case kindMap:
		return m.typeAt(m.pointer(t.addr + 56))
	}
	return typ{}, false
}

// pkg is the path of the package that declared a struct or an interface; "" if
// it has neither unexported fields nor methods.
func (m *module) pkg(t typ) string {
	if t.kind != kindStruct && t.kind != kindInterface {
		return ""
	}
	s, _ := m.text1(m.pointer(t.addr + 48))
	return string(s)
}

type field struct {
	name     string
	off      uint64
	typ      typ
	embedded bool
}

// fields yields a struct's fields in order.
func (m *module) fields(t typ) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		if t.kind != kindStruct {
			return
		}
		at, n := m.pointer(t.addr+56), m.word(t.addr+64)
		for i := range min(n, maxFields) {
			b := m.read(at+24*i, 24)
			if b == nil {
				return
			}
			f := field{off: binary.LittleEndian.Uint64(b[16:])}
			name, ft := m.unbiased(b), m.unbiased(b[8:])
			var ok bool
			if f.typ, ok = m.typeAt(ft); !ok || f.off > t.size {
				return
			}
			text, flags := m.text1(name)
			f.name, f.embedded = string(text), flags&8 != 0
			if !yield(f) {
				return
			}
		}
	}
}

// field finds one of a struct by its name.
func (m *module) field(t typ, name string) (field, bool) {
	for f := range m.fields(t) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// lookup finds the types with these names, several of a name where packages
// share it. Only types that reflection could make are found: pointers, above all.
func (m *module) lookup(names []string) map[string][]typ {
	found := map[string][]typ{}
	if m.descriptors == 0 {
		for _, name := range names {
			found[name] = m.search1(name)
		}
		return found
	}
	for _, name := range names {
		found[name] = nil
	}
	// Since Go 1.27 they stand one after the other, and have no table.
	n := 0
	for at := m.types + 8; at < m.descriptors && n < maxTypes; n++ {
		t, ok := m.typeAt(at)
		// A map's description has grown from version to version. What is in it
		// does not look like a type, so the next type ends it.
		for k := 0; !ok && n > 0 && k < 16 && at < m.descriptors; k++ {
			at += 8
			t, ok = m.typeAt(at)
		}
		if !ok {
			break
		}
		if t.kind == kindPointer {
			if name := m.rawName(t); len(name) > 0 && name[0] == '*' {
				if list, ok := found[string(name)]; ok && len(list) < maxCopies {
					found[string(name)] = append(list, t)
				}
			}
		}
		at += m.descriptorSize(t)
	}
	return found
}

// search1 finds a name in typelinks, which are sorted by it.
func (m *module) search1(name string) (found []typ) {
	at := func(i uint64) (typ, bool) {
		return m.typeAt(m.types + uint64(m.half(m.typelinks.addr+4*i)))
	}
	lo, hi := uint64(0), m.typelinks.len
	for lo < hi {
		mid := (lo + hi) / 2
		t, ok := at(mid)
		if !ok {
			return nil
		}
		if strings.Compare(string(m.rawName(t)), name) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for ; lo < m.typelinks.len && len(found) < maxCopies; lo++ {
		t, ok := at(lo)
		if !ok || string(m.rawName(t)) != name {
			break
		}
		found = append(found, t)
	}
	return found
}

// descriptorSize is that of a type in bytes, with all that follows it.
func (m *module) descriptorSize(t typ) uint64 {
	size, add := uint64(48), uint64(0)
	switch t.kind {
	case kindPointer, kindSlice:
		size = 56
	case kindChan:
		size = 64
	case kindArray:
		size = 72
	case kindFunc:
		size = 56
		if b := m.read(t.addr+48, 4); b != nil {
			in, out := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])&0x7fff
			add = 8 * (uint64(in) + uint64(out))
		}
	case kindInterface:
		size = 80
		add = 8 * min(m.word(t.addr+64), maxTypes)
	case kindMap:
		size = 88 // at least
	case kindStruct:
		size = 80
		add = 24 * min(m.word(t.addr+64), maxTypes)
	}
	if t.flag&flagUncommon != 0 {
		if b := m.read(t.addr+size, 16); b != nil {
			add += 16 + 16*uint64(binary.LittleEndian.Uint16(b[4:]))
		}
	}
	return (size + add + 7) &^ 7
}
