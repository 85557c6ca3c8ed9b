package golang

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"

	"github.com/tare-trace/tare/agent/runtime/elffile"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

// Bytes are read in chunks: a process has thousands of types next to each
// other, and a system call for each costs more than all of the rest.
const (
	chunkSize = 16 << 10
	maxChunks = 256 // 4 MiB, then all are dropped
	maxRead   = 1 << 20
)

// image is a program's memory by the addresses of its executable, that is,
// without the bias at which a position independent one is loaded. What the
// loader relocates is read from the process, everything else from the file.
type image struct {
	file    io.ReaderAt
	memory  io.ReaderAt // nil: there is no process, only its executable
	bias    uint64
	elf     *elffile.File
	account *reading.Account
	segs    []segment
	chunks  map[chunk][]byte
	last    chunk // whose bytes lastBuf has
	lastBuf []byte
	err     error // of reading the process's memory
}

// chunk is a piece of a segment.
type chunk struct{ segment, number uint64 }

type segment struct {
	addr, size uint64 // as far as the file has content
	offset     uint64
	relocated  bool // holds addresses that the loader wrote
	code       bool
}

var errNoProcess = errors.New("position independent: its addresses are known in a process only")

// openImage reads an executable's headers. Memory may be nil.
func openImage(f *elffile.File, file, memory io.ReaderAt, bias uint64, a *reading.Account) (*image, error) {
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return nil, errors.New("not a 64-bit little-endian executable")
	}
	m := &image{file: file, memory: memory, bias: bias, elf: f, account: a, chunks: map[chunk][]byte{}, last: chunk{^uint64(0), 0}}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		s := segment{addr: p.Vaddr, size: p.Filesz, offset: p.Off, code: p.Flags&elf.PF_X != 0,
			relocated: f.Type == elf.ET_DYN && p.Flags&elf.PF_W != 0}
		if s.addr+s.size < s.addr {
			return nil, errors.New("segment beyond the address space")
		}
		if s.relocated && memory == nil {
			return nil, errNoProcess
		}
		m.segs = append(m.segs, s)
	}
	return m, nil
}

// failed is why what was read is not all that the executable has; nil if it is.
func (m *image) failed() error {
	if m.err != nil {
		return m.err
	}
	return m.account.Err()
}

// relocated says that addresses differ from process to process.
func (m *image) relocated() bool { return m.elf.Type == elf.ET_DYN }

// segment finds the one that holds n bytes at addr; nil if none does.
func (m *image) segment(addr, n uint64) *segment {
	for i := range m.segs {
		if s := &m.segs[i]; addr >= s.addr && addr-s.addr < s.size {
			if n > s.size-(addr-s.addr) {
				return nil
			}
			return s
		}
	}
	return nil
}

// fill reads all of b from addr, which is in s.
func (m *image) fill(s *segment, b []byte, addr uint64) bool {
	if !m.account.Read(len(b)) {
		return false
	}
	if s.relocated {
		n, err := m.memory.ReadAt(b, int64(addr+m.bias))
		if n != len(b) && m.err == nil {
			m.err = err
		}
		return n == len(b)
	}
	n, _ := m.file.ReadAt(b, int64(s.offset+addr-s.addr))
	return n == len(b)
}

// read returns n bytes at addr, nil if they are not all in one segment. They
// must not be written to.
func (m *image) read(addr, n uint64) []byte {
	s := m.segment(addr, n)
	if s == nil || n == 0 || n > maxRead || !m.account.Work(1) {
		return nil
	}
	at := addr - s.addr
	key := chunk{s.addr, at / chunkSize}
	if (at+n-1)/chunkSize != key.number {
		b := make([]byte, n)
		if !m.fill(s, b, addr) {
			return nil
		}
		return b
	}
	if key != m.last {
		b, ok := m.chunks[key]
		if !ok {
			b = make([]byte, min(chunkSize, s.size-key.number*chunkSize))
			if !m.fill(s, b, s.addr+key.number*chunkSize) {
				return nil
			}
			if len(m.chunks) >= maxChunks {
				clear(m.chunks)
			}
			m.chunks[key] = b
		}
		m.last, m.lastBuf = key, b
	}
	return m.lastBuf[at%chunkSize : at%chunkSize+n]
}

// word reads a number of 8 bytes; 0 where there is none.
func (m *image) word(addr uint64) uint64 {
	if b := m.read(addr, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (m *image) half(addr uint64) uint32 {
	if b := m.read(addr, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// pointer reads an address; 0 where there is none.
func (m *image) pointer(addr uint64) uint64 {
	b := m.read(addr, 8)
	if b == nil {
		return 0
	}
	return m.unbiased(b)
}

// unbiased is the address in b, which was read from where addresses are relocated.
func (m *image) unbiased(b []byte) uint64 {
	v := binary.LittleEndian.Uint64(b)
	if v == 0 || !m.relocated() {
		return v
	}
	return v - m.bias
}

// each passes the bytes of [addr, addr+n) on in order, in pieces that overlap by
// keep bytes, until yield returns false. It reads past the cache, so that a
// table of megabytes does not displace what is read again.
func (m *image) each(addr, n uint64, keep int, yield func(at uint64, b []byte) bool) {
	buf := make([]byte, 256<<10)
	for n > 0 {
		b := buf[:min(n, uint64(len(buf)))]
		s := m.segment(addr, uint64(len(b)))
		if s == nil || !m.fill(s, b, addr) {
			return
		}
		if !yield(addr, b) || uint64(len(b)) == n || len(b) <= keep {
			return
		}
		step := uint64(len(b) - keep)
		addr, n = addr+step, n-step
	}
}

// window reads a table in one direction, past the cache.
type window struct {
	m    *image
	size int // bytes that are read at a time
	addr uint64
	buf  []byte
	room []byte
}

func (w *window) read(addr, n uint64) []byte {
	if !w.m.account.Work(1) {
		return nil
	}
	if o := addr - w.addr; addr >= w.addr && o < uint64(len(w.buf)) && n <= uint64(len(w.buf))-o {
		return w.buf[o : o+n]
	}
	s := w.m.segment(addr, n)
	if s == nil || n == 0 || n > uint64(w.size) {
		return nil
	}
	if w.room == nil {
		w.room = make([]byte, w.size)
	}
	w.addr, w.buf = addr, w.room[:min(uint64(len(w.room)), s.size-(addr-s.addr))]
	if !w.m.fill(s, w.buf, addr) {
		w.buf = nil
		return nil
	}
	return w.buf[:n]
}
