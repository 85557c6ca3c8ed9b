package native

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tare-trace/tare/agent/runtime/elffile"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

const (
	maxOpen  = 64 // files of a process
	maxRelas = 8  // tables of relocations of a module; linkers make two
	maxSame  = 64 // places in which a name stands in a table of names
	piece    = 64 << 10
)

// Process is a process's memory, and the files that are mapped there.
type Process struct {
	*Memory
	dir      string
	exe      string // path, as the list of mappings has it
	mappings []Mapping
	modules  map[string]*Module
	close    []io.Closer
	buffer   []byte // for a piece of a table
}

// Open opens a process, whose directory in the proc file system is given, to be read as its
// account allows. The error is os.ErrNotExist or another of the file system's if it has ended.
func Open(dir string, a *reading.Account) (*Process, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("not on this architecture: " + runtime.GOARCH)
	}
	memory, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return nil, err
	}
	p := &Process{Memory: NewMemory(memory, a), dir: dir, modules: map[string]*Module{}, close: []io.Closer{memory}}
	if p.exe, err = os.Readlink(filepath.Join(dir, "exe")); err == nil {
		err = p.keepMappings()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes all of its files.
func (p *Process) Close() {
	for _, c := range p.close {
		_ = c.Close()
	}
}

// Executable is the module that the process was started with.
func (p *Process) Executable() (*Module, error) {
	return p.find(p.exe, func(path string) bool { return path == p.exe })
}

// Library is the first module whose base name matches a pattern of path.Match;
// its error says that there is none.
func (p *Process) Library(pattern string) (*Module, error) {
	return p.find(pattern, func(name string) bool {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	})
}

func (p *Process) find(name string, match func(path string) bool) (*Module, error) {
	err := fmt.Errorf("no %s", name)
	for _, first := range p.mappings {
		if !p.account.Work(1) {
			return nil, p.account.Err()
		}
		if first.Offset != 0 || !match(first.Path) {
			continue
		}
		m, ok := p.modules[first.Path]
		if !ok {
			if m, err = p.open(first); err != nil {
				continue
			}
			p.modules[first.Path] = m
		}
		return m, nil
	}
	return nil, err
}

// Named are the addresses of the mappings whose path, or name in brackets, begins so.
func (p *Process) Named(prefix string) (low []uint64) {
	for _, m := range p.mappings {
		if strings.HasPrefix(m.Path, prefix) {
			low = append(low, m.Low)
		}
	}
	return low
}

// Exporting are the modules that define a dynamic symbol, the executable first, as the
// dynamic linker finds them in the process's memory. Its error is of a module that does
// and cannot be opened.
func (p *Process) Exporting(name string) (modules []*Module, err error) {
	seen := map[string]bool{}
	for _, first := range p.mappings {
		if first.Offset != 0 || first.Path[0] != '/' || seen[first.Path] || !p.exports(first.Low, name) {
			continue
		}
		seen[first.Path] = true
		m, failed := p.find(first.Path, func(path string) bool { return path == first.Path })
		switch {
		case failed != nil:
			err = failed
		case m.own:
			modules = slices.Insert(modules, 0, m)
		default:
			modules = append(modules, m)
		}
	}
	return modules, err
}

// Module is an ELF file that is loaded in a process.
type Module struct {
	Name string // base name
	Bias uint64 // of its addresses
	of   *Process
	file io.ReaderAt
	elf  *elffile.File
	own  bool // it is the executable
}

// open opens the file of a mapping that begins a module.
func (p *Process) open(first Mapping) (*Module, error) {
	name := path.Base(first.Path)
	if len(p.close) > maxOpen {
		return nil, fmt.Errorf("%s: mapped too often", name)
	}
	f, err := reading.Open(filepath.Join(p.dir, "map_files", fmt.Sprintf("%x-%x", first.Low, first.High)))
	if err != nil { // a tracer without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE
		if f, err = reading.OpenIn(p.dir, first.Path); err != nil {
			return nil, fmt.Errorf("%s: cannot be opened", name)
		}
	}
	p.close = append(p.close, f)
	m := &Module{Name: name, of: p, file: p.account.Of(f), own: first.Path == p.exe}
	if m.elf, err = elffile.New(m.file); err != nil || m.elf.Machine != elf.EM_X86_64 || m.elf.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("%s: not a module for amd64", name)
	}
	// A path may lead to another file by now.
	head := make([]byte, 1024)
	n, _ := m.file.ReadAt(head, 0)
	if b := p.Read(first.Low, uint64(n)); b == nil || !bytes.Equal(b, head[:n]) {
		return nil, fmt.Errorf("%s: its file is not the one that is mapped", name)
	}
	loaded := false
	for _, s := range m.elf.Progs {
		if s.Type != elf.PT_LOAD || s.Filesz == 0 {
			continue
		}
		if !loaded {
			m.Bias, loaded = first.Low-s.Vaddr&^(pageSize-1), true
		}
		// The file may also be mapped to be read, by the process or a debugger in it.
		if !p.maps(m.Bias+s.Vaddr, first.Path, s.Flags&elf.PF_X != 0) {
			return nil, fmt.Errorf("%s: not loaded as its headers say", name)
		}
	}
	if !loaded {
		return nil, fmt.Errorf("%s: nothing to load", name)
	}
	return m, nil
}

func (p *Process) maps(addr uint64, path string, code bool) bool {
	for _, m := range p.mappings {
		if addr >= m.Low && addr < m.High {
			return m.Path == path && (m.Code || !code)
		}
	}
	return false
}

// each yields a table's entries of a size in order; they are valid until the next.
func (m *Module) each(s elffile.Section, entry int, yield func(b []byte) bool) {
	m.pieces(s, 0, entry, func(_ uint64, b []byte) bool {
		for ; len(b) >= entry; b = b[entry:] {
			if !m.of.account.Work(1) || !yield(b[:entry]) {
				return false
			}
		}
		return true
	})
}

// pieces yields a section's bytes in order, in pieces of a multiple of a size, or so that
// each repeats the last bytes of the one before, until the file's end.
func (m *Module) pieces(s elffile.Section, keep, multiple int, yield func(at uint64, b []byte) bool) {
	if s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_COMPRESSED != 0 || s.Offset >= 1<<62 || s.Size >= 1<<62 {
		return
	}
	if m.of.buffer == nil {
		m.of.buffer = make([]byte, piece)
	}
	size := uint64(piece - piece%multiple)
	for at := uint64(0); at < s.Size; at += size - uint64(keep) {
		b := m.of.buffer[:min(size, s.Size-at)]
		n, err := m.file.ReadAt(b, int64(s.Offset+at)) //nolint:gosec // both are small enough
		if !yield(at, b[:n]) || err != nil || uint64(len(b)) < size {
			return
		}
	}
}

// Symbol finds one that the module defines, in .dynsym or in .symtab, which
// distributions may have stripped. Its value is an address without bias, or for
// a thread's variable (STT_TLS) the offset in the module's block.
func (m *Module) Symbol(name string) (s elf.Symbol, ok bool) {
	if s, _, ok = m.symbol(name, elf.SHT_DYNSYM); !ok {
		s, _, ok = m.symbol(name, elf.SHT_SYMTAB)
	}
	return s, ok
}

// symbol finds one in a table, with its number there. A file has one table of a kind.
func (m *Module) symbol(name string, kind elf.SectionType) (s elf.Symbol, number uint32, ok bool) {
	const entry = 24
	for table := range m.elf.Sections() {
		if table.Type != kind {
			continue
		}
		names, linked := m.elf.Linked(table)
		if !linked {
			break
		}
		at := m.named(names, name)
		if len(at) == 0 {
			break
		}
		i := uint32(0)
		m.each(table, entry, func(b []byte) bool {
			if section := binary.LittleEndian.Uint16(b[6:]); section != 0 && slices.Contains(at, uint64(binary.LittleEndian.Uint32(b))) {
				s = elf.Symbol{Name: name, Info: b[4], Other: b[5], Section: elf.SectionIndex(section),
					Value: binary.LittleEndian.Uint64(b[8:]), Size: binary.LittleEndian.Uint64(b[16:])}
				number, ok = i, true
			}
			i++
			return !ok
		})
		break
	}
	return s, number, ok
}

// named is where a name stands in a table of names, which may end others.
func (m *Module) named(names elffile.Section, name string) (at []uint64) {
	wanted := []byte(name + "\x00")
	m.pieces(names, len(wanted)-1, 1, func(from uint64, b []byte) bool {
		for o := 0; len(at) < maxSame; {
			i := bytes.Index(b[o:], wanted)
			if i < 0 {
				return true
			}
			at = append(at, from+uint64(o+i))
			o += i + 1
		}
		return false
	})
	return at
}

// Address is where a function or variable is in the process; 0 if the module
// does not define it.
func (m *Module) Address(name string) uint64 {
	if s, ok := m.Symbol(name); ok && elf.ST_TYPE(s.Info) != elf.STT_TLS {
		return m.Bias + s.Value
	}
	return 0
}

// Section is where a section is in the process; 0 if it is not there.
func (m *Module) Section(name string) (addr, size uint64) {
	if s, ok := m.elf.Section(name); ok && s.Flags&elf.SHF_ALLOC != 0 {
		return m.Bias + s.Addr, s.Size
	}
	return 0, 0
}

// relocation finds one of a type that names a symbol, by its number; 0: none, it is about
// the module itself.
func (m *Module) relocation(kind elf.R_X86_64, symbol uint32) (addr uint64, addend int64, ok bool) {
	const entry = 24
	left := maxRelas
	for table := range m.elf.Sections() {
		if table.Type != elf.SHT_RELA || table.Flags&elf.SHF_ALLOC == 0 { //nolint:misspell // ELF's own word
			continue
		}
		m.each(table, entry, func(b []byte) bool {
			if ok = binary.LittleEndian.Uint64(b[8:]) == uint64(symbol)<<32|uint64(kind); ok {
				addr, addend = m.Bias+binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[16:]))
			}
			return !ok
		})
		if left--; ok || left == 0 {
			break
		}
	}
	return addr, addend, ok
}

// TLS is the segment of the module's thread-local variables; nil if it has none.
func (m *Module) TLS() *elf.ProgHeader {
	for i, s := range m.elf.Progs {
		if s.Type == elf.PT_TLS {
			return &m.elf.Progs[i]
		}
	}
	return nil
}
