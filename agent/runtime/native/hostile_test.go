package native_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

// hostile is a module for amd64 of which every section has a type and is all of one table.
type hostile struct {
	name  string
	kinds []elf.SectionType // in turn
	flags elf.SectionFlag
	count int
	table func(b []byte) // fills it
}

const tableSize = 60 << 20

// load writes the module, maps it into this process as its headers say, and returns its path.
func (h hostile) load(t *testing.T) string {
	t.Helper()
	const page = 4096
	path := filepath.Join(t.TempDir(), h.name)
	b := make([]byte, page, page+64*h.count+tableSize)
	var head bytes.Buffer
	for _, part := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64),
			Version: 1, Phoff: 64, Shoff: page, Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64, Shnum: uint16(h.count)},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: page, Memsz: page, Align: page},
		elf.Prog64{Type: uint32(elf.PT_TLS), Flags: uint32(elf.PF_R), Memsz: 64, Align: 8},
	} {
		_ = binary.Write(&head, binary.LittleEndian, part)
	}
	copy(b, head.Bytes())
	for i := range h.count {
		var s bytes.Buffer
		_ = binary.Write(&s, binary.LittleEndian, elf.Section64{Type: uint32(h.kinds[i%len(h.kinds)]), Flags: uint64(h.flags), Off: uint64(page + 64*h.count),
			Size: tableSize, Link: uint32(i), Entsize: 24})
		b = append(b, s.Bytes()...)
	}
	b = b[:len(b)+tableSize]
	h.table(b[page+64*h.count:])
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m, err := syscall.Mmap(int(f.Fd()), 0, page, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(m) })
	return path
}

// A module of whose 64 MB every section is a table of symbols, of names or of relocations
// costs no more memory and time than any other.
func TestHostileModule(t *testing.T) {
	names := func(b []byte) { copy(b, bytes.Repeat([]byte("gHotSpotVMStructs\x00"), len(b)/18)) }
	symbols := func(b []byte) {
		for i := range b {
			b[i] = 1
		}
	}
	tables := []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB, elf.SHT_RELA, elf.SHT_STRTAB} //nolint:misspell // ELF's own word
	for name, h := range map[string]hostile{
		"symbols":     {"libjvm.so", tables, elf.SHF_ALLOC, 1000, symbols},
		"names":       {"libjvm.so", tables, elf.SHF_ALLOC, 1000, names},
		"compressed":  {"libjvm.so", tables, elf.SHF_ALLOC | elf.SHF_COMPRESSED, 1000, names},
		"relocations": {"libjvm.so", tables[2:3], elf.SHF_ALLOC, 4000, symbols},
	} {
		t.Run(name, func(t *testing.T) {
			path := h.load(t)
			debugRead := reading.New()
			began := cpu(t)
			most := readingtest.Live(t, func() {
				p, err := native.Open("/proc/self", debugRead)
				if err != nil {
					t.Error(err)
					return
				}
				defer p.Close()
				m, err := p.Library(filepath.Base(path))
				if err != nil {
					t.Error(err)
					return
				}
				for i := range 100 { // as a runtime's reader asks for one after the other
					_ = m.Address("gHotSpotVMStructs")
					_, _ = p.TLSVariable(m, fmt.Sprint("variable", i))
					_, _ = p.TLSPath(&native.LibC{}, m, 0)
				}
			})
			t.Logf("at most %d KiB were held, %v of CPU with the measurement", most>>10, cpu(t)-began)
			if name != "compressed" && !errors.Is(debugRead.Err(), reading.TooManyBytes) && !errors.Is(debugRead.Err(), reading.TooMuchWork) {
				t.Errorf("%v, want a limit", debugRead.Err())
			}
		})
	}
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// proc writes a directory of the proc file system with a list of mappings.
func proc(t testing.TB, maps []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "maps"), maps, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"mem": "/proc/self/mem", "exe": "/proc/self/exe", "root": "/"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// However many mappings a process has, and however long their names are, few are held; of
// a process with a usual number, however much data it maps, all that matter.
func TestManyMappings(t *testing.T) {
	line := func(i int, flags, path string) string {
		return fmt.Sprintf("%x-%x %s 00000000 08:01 7 %s\n", 0x10000+i*0x2000, 0x11000+i*0x2000, flags, path)
	}
	var many, data, long strings.Builder
	for i := range 60000 {
		many.WriteString(line(i, "r-xp", fmt.Sprintf("/%d/%s", i, strings.Repeat("x", 1000))))
		if i%60 > 0 {
			data.WriteString(line(i, "r--s", fmt.Sprintf("/var/lib/index/%d.cfs", i)))
			data.WriteString(line(i, "rw-p", ""))
		} else {
			data.WriteString(line(i, "r-xp", fmt.Sprintf("/lib/%d.so", i)))
		}
	}
	for i := range 1000 { // 32 MB
		long.WriteString(line(i, "r-xp", "/"+strings.Repeat("x", 32<<10)))
	}
	for name, c := range map[string]struct {
		text  string
		limit error
		named int
	}{
		"60,000 with long names": {many.String(), reading.Shape, 0},
		"names beyond any":       {long.String(), nil, 0},
		"a line of 100 MB":       {strings.Repeat("x", 100<<20), nil, 0},
		"59,000 of data":         {data.String(), nil, 1000},
	} {
		dir := proc(t, []byte(c.text))
		c.text = ""
		readingtest.Live(t, func() {
			p, err := native.Open(dir, reading.New())
			if c.limit != nil {
				if !errors.Is(err, c.limit) {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer p.Close()
			if n := len(p.Named("/lib/")); n != c.named {
				t.Errorf("%s: %d modules, want %d", name, n, c.named)
			}
		})
	}
}

// A path that leads to a device or a FIFO, by a link that leaves the process's root or not, is not opened.
func TestHostilePaths(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "libfifo.so"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"libdevice.so": "/dev/zero", "libself.so": "/proc/self/exe"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir := proc(t, []byte("1000-2000 r-xp 00000000 08:01 7 /libfifo.so\n3000-4000 r-xp 00000000 08:01 7 /libdevice.so\n5000-6000 r-xp 00000000 08:01 7 /libself.so\n"))
	if err := os.Remove(filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	p, err := native.Open(dir, reading.New())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, name := range []string{"libfifo.so", "libdevice.so", "libself.so"} {
		if _, err := p.Library(name); err == nil || !strings.HasSuffix(err.Error(), "cannot be opened") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzProcess gives the readers of a process's modules its list of mappings, its memory and one
// file of arbitrary content, repeated without end: none may panic, hold more than is allowed or go on.
func FuzzProcess(f *testing.F) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("1000-20000000 r-xp 00000000 08:01 7 /lib/libc.so.6\n20000000-20001000 rw-p 00000000 00:00 0 [anon:OTEL_CTX]\n"), self[:4096])
	f.Add([]byte("0-7fffffffffff r-xp 0 08:01 7 /lib/x.so\n"), []byte(elf.ELFMAG))
	f.Add([]byte("x"), []byte{1})
	f.Fuzz(func(t *testing.T, maps, content []byte) {
		if len(content) == 0 {
			return
		}
		dir := proc(t, maps)
		_ = os.Remove(filepath.Join(dir, "mem"))
		if err := os.WriteFile(filepath.Join(dir, "mem"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		readingtest.Live(t, func() {
			p, err := native.Open(dir, reading.New())
			if err != nil {
				return
			}
			defer p.Close()
			p.Memory = native.NewMemory(readingtest.Endless(content), reading.New())
			_, _ = p.Exporting("otel_thread_ctx_v1")
			_, _ = p.LibC()
			l := &native.LibC{Specific: 16, KeyData: 8, KeySize: 16, Block: 512, TID: 8, DTVP: 8, DTVSize: 16}
			l.Lists(nativetest.Base, nativetest.Base+64)
			threads, _ := l.Threads(p.Memory)
			var owners []native.Owner
			for _, thread := range threads[:min(len(threads), 64)] {
				owners = append(owners, native.Owner{Thread: thread, TID: p.Half(thread + 8), Value: p.Word(thread)})
			}
			_, _ = l.KeyPath(p.Memory, owners)
		})
	})
}
