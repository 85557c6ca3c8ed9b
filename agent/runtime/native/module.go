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
	"strconv"
	"strings"
)

const (
	maxTable = 64 << 20     // bytes of a table of symbols, of strings or of relocations
	maxRead  = 8 * maxTable // of all tables of a module
	maxMaps  = 64 << 20     // bytes of the list of mappings
	maxOpen  = 64           // files of a process
)

// Process is a process's memory, and the files that are mapped there.
type Process struct {
	*Memory
	dir      string
	exe      string // path, as the list of mappings has it
	mappings []mapping
	modules  map[string]*Module
	close    []io.Closer
}

type mapping struct {
	low, high, offset uint64
	code              bool   // may be executed
	path              string // or a name in brackets
}

// Open opens a process, whose directory in the proc file system is given. The
// error is os.ErrNotExist or another of the file system's if it has ended.
func Open(dir string) (*Process, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("not on this architecture: " + runtime.GOARCH)
	}
	memory, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return nil, err
	}
	p := &Process{Memory: NewMemory(memory), dir: dir, modules: map[string]*Module{}, close: []io.Closer{memory}}
	if p.exe, err = os.Readlink(filepath.Join(dir, "exe")); err == nil {
		err = p.readMaps()
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

func (p *Process) readMaps() error {
	f, err := os.Open(filepath.Join(p.dir, "maps"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxMaps))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		// low-high permissions offset device inode path
		name := strings.IndexAny(line, "/[")
		fields := strings.Fields(line)
		if name < 0 || len(fields) < 6 {
			continue
		}
		low, high, _ := strings.Cut(fields[0], "-")
		m := mapping{code: strings.Contains(fields[1], "x"), path: strings.TrimSuffix(line[name:], "\n")}
		m.low, _ = strconv.ParseUint(low, 16, 64)
		m.high, _ = strconv.ParseUint(high, 16, 64)
		m.offset, _ = strconv.ParseUint(fields[2], 16, 64)
		p.mappings = append(p.mappings, m)
	}
	return nil
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
		if first.offset != 0 || !match(first.path) {
			continue
		}
		m, ok := p.modules[first.path]
		if !ok {
			if m, err = p.open(first); err != nil {
				continue
			}
			p.modules[first.path] = m
		}
		return m, nil
	}
	return nil, err
}

// Named are the addresses of the mappings whose path, or name in brackets, begins so.
func (p *Process) Named(prefix string) (low []uint64) {
	for _, m := range p.mappings {
		if strings.HasPrefix(m.path, prefix) {
			low = append(low, m.low)
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
		if first.offset != 0 || first.path[0] != '/' || seen[first.path] || !p.exports(first.low, name) {
			continue
		}
		seen[first.path] = true
		m, failed := p.find(first.path, func(path string) bool { return path == first.path })
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
	elf  *elf.File
	own  bool   // it is the executable
	read uint64 // bytes of tables
}

// open opens the file of a mapping that begins a module.
func (p *Process) open(first mapping) (*Module, error) {
	name := path.Base(first.path)
	if len(p.close) > maxOpen {
		return nil, fmt.Errorf("%s: mapped too often", name)
	}
	f, err := os.Open(filepath.Join(p.dir, "map_files", fmt.Sprintf("%x-%x", first.low, first.high)))
	if err != nil { // a tracer without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE
		if f, err = os.Open(filepath.Join(p.dir, "root", first.path)); err != nil {
			return nil, fmt.Errorf("%s: cannot be opened", name)
		}
	}
	p.close = append(p.close, f)
	m := &Module{Name: name, own: first.path == p.exe}
	if m.elf, err = elf.NewFile(f); err != nil || m.elf.Machine != elf.EM_X86_64 || m.elf.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("%s: not a module for amd64", name)
	}
	// A path may lead to another file by now.
	head := make([]byte, 1024)
	n, _ := f.ReadAt(head, 0)
	if b := p.Read(first.low, uint64(n)); b == nil || !bytes.Equal(b, head[:n]) {
		return nil, fmt.Errorf("%s: its file is not the one that is mapped", name)
	}
	loaded := false
	for _, s := range m.elf.Progs {
		if s.Type != elf.PT_LOAD || s.Filesz == 0 {
			continue
		}
		if !loaded {
			m.Bias, loaded = first.low-s.Vaddr&^(pageSize-1), true
		}
		// The file may also be mapped to be read, by the process or a debugger in it.
		if !p.maps(m.Bias+s.Vaddr, first.path, s.Flags&elf.PF_X != 0) {
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
		if addr >= m.low && addr < m.high {
			return m.path == path && (m.code || !code)
		}
	}
	return false
}

// data reads a table; nil if it has none, or an unreasonable one.
func (m *Module) data(s *elf.Section) []byte {
	if m.read += min(s.Size, maxRead); s.Size > maxTable || m.read > maxRead || s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	b, err := s.Data()
	if err != nil {
		return nil
	}
	return b
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

// symbol finds one in a table, with its number there.
func (m *Module) symbol(name string, kind elf.SectionType) (s elf.Symbol, number uint32, ok bool) {
	const entry = 24
	for _, table := range m.elf.Sections {
		if table.Type != kind || uint64(table.Link) >= uint64(len(m.elf.Sections)) {
			continue
		}
		names := m.data(m.elf.Sections[table.Link])
		number = 0
		for b := m.data(table); len(b) >= entry; b, number = b[entry:], number+1 {
			at, section := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint16(b[6:])
			end := uint64(at) + uint64(len(name))
			if section == 0 || end >= uint64(len(names)) || names[end] != 0 || string(names[at:end]) != name {
				continue
			}
			return elf.Symbol{Name: name, Info: b[4], Other: b[5], Section: elf.SectionIndex(section),
				Value: binary.LittleEndian.Uint64(b[8:]), Size: binary.LittleEndian.Uint64(b[16:])}, number, true
		}
	}
	return elf.Symbol{}, 0, false
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
	if s := m.elf.Section(name); s != nil && s.Flags&elf.SHF_ALLOC != 0 {
		return m.Bias + s.Addr, s.Size
	}
	return 0, 0
}

// relocation finds one of a type that names a symbol, by its number; 0: none, it is about
// the module itself.
func (m *Module) relocation(kind elf.R_X86_64, symbol uint32) (addr uint64, addend int64, ok bool) {
	const entry = 24
	for _, table := range m.elf.Sections {
		if table.Type != elf.SHT_RELA { //nolint:misspell // ELF's own word
			continue
		}
		for b := m.data(table); len(b) >= entry; b = b[entry:] {
			if binary.LittleEndian.Uint64(b[8:]) == uint64(symbol)<<32|uint64(kind) {
				return m.Bias + binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[16:])), true
			}
		}
	}
	return 0, 0, false
}

// TLS is the segment of the module's thread-local variables; nil if it has none.
func (m *Module) TLS() *elf.ProgHeader {
	for _, s := range m.elf.Progs {
		if s.Type == elf.PT_TLS {
			return &s.ProgHeader
		}
	}
	return nil
}
