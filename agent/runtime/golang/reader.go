package golang

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
)

// Program is a layout in a process.
type Program struct {
	*Layout
	Bias uint64 // of all addresses of the layout
	// HashKeys are the round keys at Hash.Keys, two words each; zero if the
	// program does not use AES: then no hash of a map is known.
	HashKeys [6]uint64
}

// Reader reads programs, and remembers what it read of an executable. It may be
// used by several goroutines; it reads one executable at a time, for which it
// needs at most 10 MiB.
type Reader struct {
	mu     sync.Mutex
	files  map[file]*known
	builds map[build]*known
}

// known is what is remembered of an executable, a refusal too.
type known struct {
	layout  *Layout
	refusal Refusal
}

// file identifies content by where it is.
type file struct {
	dev, ino    uint64
	size, mtime int64
}

// build identifies content by the ids that compiler and linker gave it, and by
// its program headers: another file with the same, in another container for
// instance.
type build struct {
	id      string
	headers uint64
}

const (
	maxKnown = 1024 // executables; then all are forgotten
	maxNotes = 1 << 16
)

// Read reads the program of a process, whose directory in the proc file system
// is given. The error is a Refusal where the program cannot be read, and
// os.ErrNotExist or another of the file system's where the process has ended.
func (r *Reader) Read(dir string) (*Program, error) {
	exe, err := os.Open(filepath.Join(dir, "exe"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = exe.Close() }()
	info, err := exe.Stat()
	if err != nil {
		return nil, err
	}
	var id file
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id = file{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano()}
	}
	entry, err := entryOf(dir)
	if err != nil {
		return nil, err
	}
	memory, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = memory.Close() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.files[id]
	if k == nil {
		if k, err = r.first(exe, memory, entry); err != nil {
			return nil, err
		}
		if len(r.files) >= maxKnown || r.files == nil {
			r.files = map[file]*known{}
		}
		r.files[id] = k
	}
	if k.layout == nil {
		return nil, k.refusal
	}
	return k.layout.in(memory, entry)
}

// first reads an executable whose file is new, though a copy of it may be known.
func (r *Reader) first(exe, memory io.ReaderAt, entry uint64) (*known, error) {
	f, err := elf.NewFile(exe)
	if err != nil {
		return &known{refusal: Refusal{Unreadable, err.Error()}}, nil
	}
	id, ok := buildOf(f)
	if k := r.builds[id]; ok && k != nil {
		return k, nil
	}
	bias := uint64(0)
	if f.Type == elf.ET_DYN {
		bias = entry - f.Entry
	}
	k := &known{}
	m, err := openImage(f, exe, memory, bias)
	if err != nil {
		return &known{refusal: Refusal{Unreadable, err.Error()}}, nil
	}
	mod, reason := openModule(m)
	if m.err != nil { // the process may have ended: not known of the executable
		return nil, m.err
	}
	if reason != Fits {
		k.refusal = Refusal{Reason: reason}
	} else if k.layout = derive(mod); m.err != nil {
		return nil, m.err
	}
	if ok {
		if len(r.builds) >= maxKnown || r.builds == nil {
			r.builds = map[build]*known{}
		}
		r.builds[id] = k
	}
	return k, nil
}

// ReadFile reads an executable that no process runs; a position independent one
// cannot be read so.
func ReadFile(exe io.ReaderAt) (*Layout, error) {
	f, err := elf.NewFile(exe)
	if err != nil {
		return nil, Refusal{Unreadable, err.Error()}
	}
	m, err := openImage(f, exe, nil, 0)
	if errors.Is(err, errNoProcess) {
		return nil, Refusal{Reason: PIEWithoutProcess}
	} else if err != nil {
		return nil, Refusal{Unreadable, err.Error()}
	}
	mod, reason := openModule(m)
	if reason != Fits {
		return nil, Refusal{Reason: reason}
	}
	return derive(mod), nil
}

// in is the layout in a process that runs from an address on.
func (l *Layout) in(memory io.ReaderAt, entry uint64) (*Program, error) {
	p := &Program{Layout: l, Bias: entry - l.entry}
	var b [16]byte
	if !l.pie && p.Bias != 0 {
		return nil, Refusal{Reason: NotSame}
	}
	if _, err := memory.ReadAt(b[:8], int64(l.module+p.Bias)); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint64(b[:]) != l.table+p.Bias {
		return nil, Refusal{Reason: NotSame}
	}
	if l.hash.Kind != NoHash {
		for i, at := range l.hash.Keys {
			if _, err := memory.ReadAt(b[:], int64(at+p.Bias)); err != nil {
				return nil, err
			}
			p.HashKeys[2*i], p.HashKeys[2*i+1] = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
		}
	}
	return p, nil
}

// maxPiece is how much of a function's table is read at most, as the kernel side reads it.
const maxPiece = 2048

// FaultIn reads of a process's memory what its tables say of a return address, in
// bytes from the beginning of the code on, so that
// it is there for the kernel side, which cannot wait for a page. The process itself looks
// there when it copies a stack or collects garbage, and may not have done so yet.
func (p *Program) FaultIn(memory io.ReaderAt, returns uint32) error {
	var failed error
	b := make([]byte, maxPiece)
	read := func(at uint64, n int) []byte {
		if _, err := memory.ReadAt(b[:n], int64(at+p.Bias)); err != nil && failed == nil {
			failed = err
		}
		return b[:n]
	}
	half := func(at uint64) uint32 { return binary.LittleEndian.Uint32(read(at, 4)) }
	l := p.Functions
	pc := returns - 1
	i := sort.Search(int(l.Len), func(i int) bool { return half(l.Table+8*uint64(i)) > pc })
	if i == 0 || failed != nil {
		return failed
	}
	record := l.Table + uint64(half(l.Table+8*uint64(i)-4))
	tables, at := uint64(half(record+recordTables)), record+recordSize
	// What is behind a table or a map may be the end of what the process has mapped.
	some := func(at uint64) { _, _ = memory.ReadAt(b, int64(at+p.Bias)) }
	for _, kind := range []uint64{tableStackMap, tableArgLive} {
		if off := half(at + 4*kind); kind < tables && failed == nil {
			some(l.PC + uint64(off))
		}
	}
	for _, kind := range []uint64{dataArguments, dataLocals, dataArgs, dataArgLive} {
		if off := half(at + 4*(tables+kind)); off != math.MaxUint32 && failed == nil {
			some(l.Maps + uint64(off))
		}
	}
	return failed
}

const atEntry = 9 // AT_ENTRY

// entryOf is the address at which a process began to run its executable.
func entryOf(dir string) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(dir, "auxv"))
	if err != nil {
		return 0, err
	}
	for ; len(b) >= 16; b = b[16:] {
		if binary.LittleEndian.Uint64(b) == atEntry {
			return binary.LittleEndian.Uint64(b[8:]), nil
		}
	}
	return 0, io.ErrUnexpectedEOF // the process has ended
}

// buildOf reads Go's and the linker's build ids; false without any.
func buildOf(f *elf.File) (build, bool) {
	var id []byte
	h := fnv.New64a()
	for _, p := range f.Progs {
		_, _ = fmt.Fprintln(h, p.ProgHeader)
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err == nil {
			id = append(id, b...)
		}
	}
	_, _ = fmt.Fprintln(h, f.Entry)
	return build{string(id), h.Sum64()}, len(id) > 0
}
