package golang

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"

	"github.com/tare-trace/tare/agent/runtime/elffile"
	"github.com/tare-trace/tare/agent/runtime/reading"
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
// used by several goroutines. One reading needs at most 8 MiB.
type Reader struct {
	mu     sync.Mutex
	files  map[file]*known
	builds map[build]*known
	held   int // bytes of what is remembered
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
type build [sha256.Size]byte

const (
	maxKnown = 1024    // executables, and
	maxHeld  = 4 << 20 // bytes of what is known of them; then all are forgotten
	maxNotes = 1 << 16
)

// Read reads the program of a process, whose directory in the proc file system
// is given, as its account allows. The error is a Refusal where the program cannot be read, a
// reading.Limit, and os.ErrNotExist or another of the file system's where the process has ended.
func (r *Reader) Read(dir string, a *reading.Account) (*Program, error) {
	exe, err := reading.Open(filepath.Join(dir, "exe"))
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
	k := r.known(id)
	if k == nil {
		if k, err = r.first(exe, memory, entry, a); err != nil {
			return nil, err
		}
		r.remember(func() { r.files[id] = k }, k)
	}
	if k.layout == nil {
		return nil, k.refusal
	}
	return k.layout.in(a.Of(memory), entry)
}

func (r *Reader) known(id file) *known {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files[id]
}

// remember adds to what is known.
func (r *Reader) remember(add func(), k *known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += k.size()
	if r.files == nil || max(len(r.files), len(r.builds)) >= maxKnown || r.held > maxHeld {
		r.files, r.builds, r.held = map[file]*known{}, map[build]*known{}, k.size()
	}
	add()
}

// first reads an executable whose file is new, though a copy of it may be known.
func (r *Reader) first(exe, memory io.ReaderAt, entry uint64, a *reading.Account) (*known, error) {
	unreadable := func(err error) (*known, error) {
		if limit := a.Err(); limit != nil { // of this process: not known of the executable
			return nil, limit
		}
		return &known{refusal: refuse(Unreadable, err.Error())}, nil
	}
	f, err := elffile.New(a.Of(exe))
	if err != nil {
		return unreadable(err)
	}
	id, ok := buildOf(f, a.Of(exe))
	if ok {
		r.mu.Lock()
		k := r.builds[id]
		r.mu.Unlock()
		if k != nil {
			return k, nil
		}
	}
	bias := uint64(0)
	if f.Type == elf.ET_DYN {
		bias = entry - f.Entry
	}
	k := &known{}
	m, err := openImage(f, exe, memory, bias, a)
	if err != nil {
		return unreadable(err)
	}
	mod, reason := openModule(m)
	if m.failed() != nil { // the process may have ended: not known of the executable
		return nil, m.failed()
	}
	if reason != Fits {
		k.refusal = Refusal{Reason: reason}
	} else if k.layout = derive(mod); m.failed() != nil {
		return nil, m.failed()
	}
	if ok {
		r.remember(func() { r.builds[id] = k }, k)
	}
	return k, nil
}

// ReadFile reads an executable that no process runs; a position independent one
// cannot be read so.
func ReadFile(exe io.ReaderAt, a *reading.Account) (*Layout, error) {
	f, err := elffile.New(a.Of(exe))
	if err != nil {
		return nil, refuse(Unreadable, err.Error())
	}
	m, err := openImage(f, exe, nil, 0, a)
	if errors.Is(err, errNoProcess) {
		return nil, Refusal{Reason: PIEWithoutProcess}
	} else if err != nil {
		return nil, refuse(Unreadable, err.Error())
	}
	mod, reason := openModule(m)
	var l *Layout
	if reason == Fits {
		l = derive(mod)
	}
	switch {
	case m.failed() != nil:
		return nil, m.failed()
	case reason != Fits:
		return nil, Refusal{Reason: reason}
	}
	return l, nil
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

const (
	atEntry = 9 // AT_ENTRY
	maxAuxv = 4096
)

// entryOf is the address at which a process began to run its executable.
func entryOf(dir string) (uint64, error) {
	f, err := os.Open(filepath.Join(dir, "auxv"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, maxAuxv)
	n, err := f.Read(b)
	if err != nil && err != io.EOF {
		return 0, err
	}
	b = b[:n]
	for ; len(b) >= 16; b = b[16:] {
		if binary.LittleEndian.Uint64(b) == atEntry {
			return binary.LittleEndian.Uint64(b[8:]), nil
		}
	}
	return 0, io.ErrUnexpectedEOF // the process has ended
}

// buildOf reads Go's and the linker's build ids; false without any.
func buildOf(f *elffile.File, exe io.ReaderAt) (id build, ok bool) {
	h := sha256.New()
	left := maxNotes
	for _, p := range f.Progs {
		_, _ = fmt.Fprintln(h, p)
		if p.Type != elf.PT_NOTE || p.Filesz > uint64(left) || p.Off >= 1<<62 {
			continue
		}
		left -= int(p.Filesz)
		n, err := io.Copy(h, io.NewSectionReader(exe, int64(p.Off), int64(p.Filesz)))
		ok = ok || err == nil && n > 0 && uint64(n) == p.Filesz
	}
	_, _ = fmt.Fprintln(h, f.Entry)
	return build(h.Sum(nil)), ok
}
