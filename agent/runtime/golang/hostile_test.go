package golang

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/elffile"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

// parts are a file of pieces of 4 GiB.
type parts []io.ReaderAt

func (p parts) ReadAt(b []byte, off int64) (int, error) {
	if i := off >> 32; i < int64(len(p)) {
		return p[i].ReadAt(b, off&(1<<32-1))
	}
	return 0, io.EOF
}

// of is a module with a segment for each part.
func (p parts) module(a *reading.Account) *module {
	m := &image{elf: &elffile.File{FileHeader: elf.FileHeader{Type: elf.ET_EXEC, Machine: elf.EM_X86_64}}, account: a,
		file: p, chunks: map[chunk][]byte{}, last: chunk{1, 0}}
	for i := range p {
		m.segs = append(m.segs, segment{addr: uint64(i) << 32, size: 1 << 32, offset: uint64(i) << 32})
	}
	return &module{image: m, arch: &amd64}
}

func words(list ...uint32) (b readingtest.Endless) {
	for _, w := range list {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// Millions of functions that all have the name of one that is looked for are not all held.
func TestManyFunctions(t *testing.T) {
	m := parts{
		0: readingtest.Endless("\x00" + fnServe + "\x00"), // names
		1: words(0, 0, 16, 0),                             // pairs of a function and its description
		2: words(0, 1, 0, 0),                              // descriptions, of which the second word is the name
	}.module(reading.New())
	m.names, m.ftab, m.functions = slice{0, 64 << 20}, slice{1 << 32, maxFunctions}, slice{2 << 32, 1 << 31}
	m.nfunc, m.etext = maxFunctions-1, 1<<32
	var found map[string][]function
	readingtest.Live(t, func() { found = m.findFunctions(wantedFunctions) })
	if n := len(found[fnServe]); n == 0 || n > maxCopies {
		t.Errorf("%d functions", n)
	}
	// Names that never end.
	m = parts{readingtest.Endless("x")}.module(reading.New())
	m.names = slice{0, 1 << 31}
	readingtest.Live(t, func() { found = m.findFunctions(wantedFunctions) })
	if len(found) > 0 {
		t.Error(found)
	}
	// Names that are long, and end as wanted.
	long := append(bytes.Repeat([]byte("x"), 200<<10), "/"+fnServe+"\x00"...)
	m = parts{0: readingtest.Endless(long), 1: words(0, 0, 16, 0), 2: words(0, 1, 0, 0)}.module(reading.New())
	m.names, m.ftab, m.functions, m.nfunc, m.etext = slice{0, 100 << 20}, slice{1 << 32, 100}, slice{2 << 32, 1 << 31}, 99, 1<<32
	readingtest.Live(t, func() { found = m.findFunctions(wantedFunctions) })
}

// Since Go 1.27 types stand one after the other: those of a wanted name are not all held either.
func TestManyTypes(t *testing.T) {
	const name, size, end = "*runtime.g", 56, 1 << 30
	b := make([]byte, size)
	b[23] = kindPointer
	binary.LittleEndian.PutUint32(b[40:], end)                                                // its name is behind all types
	first := append(readingtest.Endless{}, append(b[size-8:len(b):len(b)], b[:size-8]...)...) // types begin 8 bytes from the beginning
	m := parts{first, readingtest.Endless("\x00" + string(rune(len(name))) + name)}.module(reading.New())
	m.segs = []segment{{addr: 1 << 12, size: end}, {addr: 1<<12 + end, size: 4096, offset: 1 << 32}}
	m.types, m.descriptors, m.etypes = 1<<12, 1<<12+end, 1<<12+end+4096
	var found map[string][]typ
	readingtest.Live(t, func() { found = m.lookup([]string{name}) })
	if n := len(found[name]); n == 0 || n > maxCopies {
		t.Errorf("%d types", n)
	}
}

// An executable of a gigabyte that is full of what looks like tables of functions is not searched
// to its end for each of them, and is not remembered as one that cannot be read.
func TestHostileExecutable(t *testing.T) {
	head := make([]byte, 4096)
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64),
			Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Off: 4096, Vaddr: 4096, Filesz: 1 << 30, Memsz: 1 << 30, Align: 4096},
		elf.Prog64{Type: uint32(elf.PT_NOTE), Flags: uint32(elf.PF_R), Off: 4096, Filesz: 4096},
	} {
		_ = binary.Write(&b, binary.LittleEndian, part)
	}
	copy(head, b.Bytes())
	table := make([]byte, 72)
	binary.LittleEndian.PutUint32(table, 0xfffffff1)
	table[6], table[7] = 1, 8
	file := &behind{head, readingtest.Endless(table)}
	var r Reader
	for i := range 2 {
		a := reading.New()
		most := readingtest.Live(t, func() {
			k, err := r.first(file, file, 0, a)
			if l := reading.Limit(""); k != nil || !errors.As(err, &l) {
				t.Errorf("%+v, %v, want a limit", k, err)
			}
		})
		t.Logf("the %d. time at most %d KiB were held", i+1, most>>10)
	}
	if len(r.builds) > 0 {
		t.Error("its build is remembered")
	}
	if _, err := ReadFile(file, reading.New()); err == nil {
		t.Error("no limit of a file")
	}
}

// behind is a file that has another one behind its first bytes.
type behind struct {
	first []byte
	then  io.ReaderAt
}

func (f *behind) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(f.first)) {
		n = copy(b, f.first[off:])
	}
	more, err := f.then.ReadAt(b[n:], max(off+int64(n)-int64(len(f.first)), 0))
	return n + more, err
}

// What is remembered of executables has a bound in bytes.
func TestRememberedIsBounded(t *testing.T) {
	var r Reader
	large := &known{layout: &Layout{}}
	for range maxContexts {
		large.layout.Contexts = append(large.layout.Contexts, Context{Type: string(make([]byte, maxType))})
	}
	for i := range uint64(10 * maxKnown) {
		k := *large
		r.remember(func() { r.files[file{ino: i}] = &k }, &k)
		if n := len(r.files); n*large.size() > maxHeld+large.size() || r.files[file{ino: i}] != &k {
			t.Fatalf("%d of %d bytes", n, large.size())
		}
	}
	if s := refuse(NoType, string(make([]byte, 1<<20))); len(s.What) > maxWhat {
		t.Errorf("%d bytes of a refusal", len(s.What))
	}
}
