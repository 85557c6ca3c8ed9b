// Package native reads the memory of processes that native runtimes run: their
// modules' symbols, glibc's threads, and where a thread keeps its variables.
// A runtime's own package asks it for paths: how the kernel side gets from a
// thread's pointer to what the runtime knows of the thread.
//
// The process may lie in its memory, and changes it meanwhile: nothing read is
// trusted, every loop and the sum of all reads are bounded, by the process's account too
// (package reading). It knows glibc on
// amd64 only, refuses everything else, attaches nothing and stops no thread.
package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

const (
	pageSize  = 4096
	maxPages  = 4096 // 16 MiB of a process
	maxHeld   = 512  // pages at a time
	maxString = 256
)

// Memory is a process's memory by its addresses. What cannot be read is 0. A
// page is read once, until Forget, or until too many are held.
type Memory struct {
	source  io.ReaderAt
	account *reading.Account
	pages   map[uint64][]byte
	left    int // pages that may still be read
}

// NewMemory reads from source, at offsets that are the process's addresses.
func NewMemory(source io.ReaderAt, a *reading.Account) *Memory {
	return &Memory{source: a.Of(source), account: a, pages: map[uint64][]byte{}, left: maxPages}
}

// Forget lets what was read be read anew, within the same bound.
func (m *Memory) Forget() { clear(m.pages) }

// Err says that not all could be read that was asked for, because it was too
// much; what was found then is no answer.
func (m *Memory) Err() error {
	if m.left == 0 {
		return errors.New("its memory has an unknown shape: too much to read")
	}
	return m.account.Err()
}

// page is the page at addr from there on; empty if it cannot be read.
func (m *Memory) page(addr uint64) []byte {
	number := addr / pageSize
	if !m.account.Work(1) {
		return nil
	}
	b, ok := m.pages[number]
	if !ok {
		if m.left == 0 || addr >= 1<<63 {
			return nil
		}
		m.left--
		if len(m.pages) >= maxHeld {
			clear(m.pages)
		}
		b = make([]byte, pageSize)
		n, _ := m.source.ReadAt(b, int64(number*pageSize))
		b = b[:min(max(n, 0), pageSize)]
		m.pages[number] = b
	}
	return b[min(addr%pageSize, uint64(len(b))):]
}

// Read returns n bytes at addr; nil if not all can be read, or more are asked
// for than fit in a page.
func (m *Memory) Read(addr, n uint64) []byte {
	if n > pageSize || addr+n < addr {
		return nil
	}
	b := m.page(addr)
	if uint64(len(b)) >= n {
		return b[:n]
	}
	if addr%pageSize+n <= pageSize {
		return nil
	}
	rest := m.page(addr + uint64(len(b)))
	if uint64(len(b)) != pageSize-addr%pageSize || uint64(len(b)+len(rest)) < n {
		return nil
	}
	return append(bytes.Clone(b), rest[:n-uint64(len(b))]...)
}

// Word reads 8 bytes.
func (m *Memory) Word(addr uint64) uint64 {
	if b := m.Read(addr, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Half reads 4 bytes.
func (m *Memory) Half(addr uint64) uint32 {
	if b := m.Read(addr, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Byte reads one.
func (m *Memory) Byte(addr uint64) byte {
	if b := m.Read(addr, 1); b != nil {
		return b[0]
	}
	return 0
}

// String reads what ends with a 0 byte; "" if that is not near.
func (m *Memory) String(addr uint64) string {
	b := m.page(addr)
	if end := bytes.IndexByte(b[:min(len(b), maxString)], 0); end >= 0 {
		return string(b[:end])
	}
	b = m.Read(addr, maxString)
	if end := bytes.IndexByte(b, 0); end >= 0 {
		return string(b[:end])
	}
	return ""
}

// Path is how to get from an address to a value: for each offset, in bytes, the
// value becomes the 8 bytes at value + offset. A path of a thread begins at its
// thread pointer: on amd64 the base of fs, which is also its pthread_t.
type Path []int32

// Follow is the value at the path's end; 0 if there is none.
func (p Path) Follow(m *Memory, from uint64) uint64 {
	for _, offset := range p {
		if from = m.Word(from + uint64(int64(offset))); from == 0 {
			return 0
		}
	}
	return from
}
