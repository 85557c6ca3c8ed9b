// Package elffile reads the headers of ELF files that somebody may have made to exhaust who
// reads them: it holds no table and no name of a section, and decompresses nothing. What
// debug/elf reads of such a file has no bound.
package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
)

// What a file may have; linkers make some ten segments and forty sections.
const (
	maxProgs    = 128
	maxSections = 4096
	maxName     = 64 // bytes of a section's name that is looked for
)

var errNotELF = errors.New("not an ELF file")

// File is an ELF file's headers.
type File struct {
	elf.FileHeader
	Progs []elf.ProgHeader

	r        io.ReaderAt
	sections uint64 // how many
	at, size uint64 // of their headers
	names    uint64 // the section with their names
}

// New reads the headers of a file and of its segments.
func New(r io.ReaderAt) (*File, error) {
	var head [64]byte
	if n, err := r.ReadAt(head[:], 0); n < 52 {
		return nil, errors.Join(errNotELF, err)
	}
	f := &File{r: r}
	f.Class, f.Data = elf.Class(head[elf.EI_CLASS]), elf.Data(head[elf.EI_DATA])
	switch f.Data {
	case elf.ELFDATA2LSB:
		f.ByteOrder = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.ByteOrder = binary.BigEndian
	}
	if !bytes.HasPrefix(head[:], []byte(elf.ELFMAG)) || f.ByteOrder == nil || f.Class != elf.ELFCLASS32 && f.Class != elf.ELFCLASS64 {
		return nil, errNotELF
	}
	o := f.ByteOrder
	f.Type, f.Machine = elf.Type(o.Uint16(head[16:])), elf.Machine(o.Uint16(head[18:]))
	var segments, one uint64
	rest, wide := head[40:], f.Class == elf.ELFCLASS64 // what follows the flags
	if wide {
		rest = head[52:]
		f.Entry, segments, f.at = o.Uint64(head[24:]), o.Uint64(head[32:]), o.Uint64(head[40:])
	} else {
		f.Entry, segments, f.at = uint64(o.Uint32(head[24:])), uint64(o.Uint32(head[28:])), uint64(o.Uint32(head[32:]))
	}
	number := func(i int) uint64 { return uint64(o.Uint16(rest[2*i:])) }
	one, f.size, f.sections, f.names = number(1), number(3), number(4), number(5)
	count := number(2)
	if count > maxProgs || count > 0 && one < f.progSize() || f.at > 0 && f.size < f.sectionSize() {
		return nil, fmt.Errorf("%w that is understood: %d segments of %d bytes, sections of %d", errNotELF, count, one, f.size)
	}
	for i := range count {
		b := make([]byte, f.progSize())
		if !f.read(b, segments+i*one) {
			return nil, errNotELF
		}
		f.Progs = append(f.Progs, f.prog(b))
	}
	if f.at == 0 {
		f.sections = 0
	} else if first, ok := f.section(0); ok { // has what does not fit into the header
		if f.sections == 0 {
			f.sections = first.Size
		}
		if f.names == uint64(elf.SHN_XINDEX) {
			f.names = uint64(first.Link)
		}
	}
	if f.sections > maxSections {
		return nil, fmt.Errorf("%w that is understood: %d sections", errNotELF, f.sections)
	}
	return f, nil
}

func (f *File) read(b []byte, off uint64) bool {
	if off >= 1<<62 {
		return false
	}
	n, _ := f.r.ReadAt(b, int64(off))
	return n == len(b)
}

func (f *File) progSize() uint64 {
	if f.Class == elf.ELFCLASS64 {
		return 56
	}
	return 32
}

func (f *File) prog(b []byte) elf.ProgHeader {
	o := f.ByteOrder
	h := elf.ProgHeader{Type: elf.ProgType(o.Uint32(b))}
	if f.Class == elf.ELFCLASS64 {
		h.Flags = elf.ProgFlag(o.Uint32(b[4:]))
		h.Off, h.Vaddr, h.Paddr, h.Filesz, h.Memsz, h.Align = o.Uint64(b[8:]), o.Uint64(b[16:]), o.Uint64(b[24:]), o.Uint64(b[32:]), o.Uint64(b[40:]), o.Uint64(b[48:])
		return h
	}
	word := func(i int) uint64 { return uint64(o.Uint32(b[4*i:])) }
	h.Off, h.Vaddr, h.Paddr, h.Filesz, h.Memsz, h.Align = word(1), word(2), word(3), word(4), word(5), word(7)
	h.Flags = elf.ProgFlag(word(6))
	return h
}

func (f *File) sectionSize() uint64 {
	if f.Class == elf.ELFCLASS64 {
		return 64
	}
	return 40
}

// Section is a section's header.
type Section struct {
	Type               elf.SectionType
	Flags              elf.SectionFlag
	Addr, Offset, Size uint64
	Link, Info         uint32

	name uint32
}

func (f *File) section(i uint64) (s Section, ok bool) {
	b := make([]byte, f.sectionSize())
	if i >= max(f.sections, 1) || f.size > 1<<16 || !f.read(b, f.at+i*f.size) {
		return s, false
	}
	o := f.ByteOrder
	s = Section{name: o.Uint32(b), Type: elf.SectionType(o.Uint32(b[4:]))}
	if f.Class == elf.ELFCLASS64 {
		s.Flags, s.Addr, s.Offset, s.Size = elf.SectionFlag(o.Uint64(b[8:])), o.Uint64(b[16:]), o.Uint64(b[24:]), o.Uint64(b[32:])
		s.Link, s.Info = o.Uint32(b[40:]), o.Uint32(b[44:])
		return s, true
	}
	word := func(i int) uint64 { return uint64(o.Uint32(b[4*i:])) }
	s.Flags, s.Addr, s.Offset, s.Size, s.Link, s.Info = elf.SectionFlag(word(2)), word(3), word(4), word(5), uint32(word(6)), uint32(word(7))
	return s, true
}

// HasSections reports whether it has headers of sections.
func (f *File) HasSections() bool { return f.sections > 0 }

// Sections yields the headers of all sections.
func (f *File) Sections() iter.Seq[Section] {
	return func(yield func(Section) bool) {
		for i := range f.sections {
			if s, ok := f.section(i); !ok || !yield(s) {
				return
			}
		}
	}
}

// Linked is the section that another one's Link refers to: its strings.
func (f *File) Linked(s Section) (Section, bool) { return f.section(uint64(s.Link)) }

// Section finds the first with a name.
func (f *File) Section(name string) (Section, bool) {
	names, ok := f.section(f.names)
	if !ok || f.sections == 0 || len(name) >= maxName {
		return Section{}, false
	}
	var room [maxName]byte
	b := room[:len(name)+1]
	for s := range f.Sections() {
		if uint64(s.name)+uint64(len(b)) <= names.Size && f.read(b, names.Offset+uint64(s.name)) && string(b) == name+"\x00" {
			return s, true
		}
	}
	return Section{}, false
}
