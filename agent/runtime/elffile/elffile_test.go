package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

// What is read of an executable is what debug/elf reads of it.
func TestAsDebugELF(t *testing.T) {
	files := []string{"/proc/self/exe"}
	for _, arch := range []string{"mips"} { // 32 bits in the other byte order
		path := filepath.Join(t.TempDir(), arch)
		source := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(source, []byte("package main\nfunc main() {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, source)
		cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		files = append(files, path)
	}
	for _, pattern := range []string{"/usr/bin/python3", "/lib/*/libc.so.6", "/usr/lib/jvm/*/lib/server/libjvm.so", "/usr/bin/node"} {
		more, _ := filepath.Glob(pattern)
		files = append(files, more...)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		want, err := elf.NewFile(file)
		if err != nil {
			t.Fatal(err)
		}
		a := reading.New()
		f, err := New(a.Of(file))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f.Class != want.Class || f.Type != want.Type || f.Machine != want.Machine || f.Entry != want.Entry || len(f.Progs) != len(want.Progs) || !f.HasSections() {
			t.Errorf("%s: %+v, want %+v", name, f, want.FileHeader)
		}
		for i, p := range want.Progs {
			if f.Progs[i] != p.ProgHeader {
				t.Errorf("%s, segment %d: %+v, want %+v", name, i, f.Progs[i], p.ProgHeader)
			}
		}
		i := 0
		for s := range f.Sections() {
			w := want.Sections[i].SectionHeader
			if s.Type != w.Type || s.Flags != w.Flags || s.Addr != w.Addr || s.Offset != w.Offset || s.Size != w.FileSize && w.Flags&elf.SHF_COMPRESSED == 0 || s.Link != w.Link || s.Info != w.Info {
				t.Errorf("%s, section %d: %+v, want %+v", name, i, s, w)
			}
			if named, ok := f.Section(w.Name); !ok || want.Section(w.Name) == want.Sections[i] && named != s {
				t.Errorf("%s, section %q: %+v, %v, want %+v", name, w.Name, named, ok, s)
			}
			i++
		}
		if _, ok := f.Section(".none"); ok || i != len(want.Sections) {
			t.Errorf("%s: %d sections of %d, and one that it has not", name, i, len(want.Sections))
		}
	}
}

// bomb has as many sections as there may be, each named by all that follows of the names: debug/elf
// holds them all.
func bomb(sections uint16, names int) []byte {
	var b bytes.Buffer
	h := elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64),
		Version: 1, Shoff: 64, Ehsize: 64, Phentsize: 56, Shentsize: 64, Shnum: sections}
	_ = binary.Write(&b, binary.LittleEndian, h)
	for i := range sections {
		s := elf.Section64{Name: uint32(i), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_COMPRESSED), Off: 64 + 64*uint64(sections), Size: uint64(names)}
		if i == 0 {
			s.Type, s.Flags = uint32(elf.SHT_STRTAB), 0
		}
		_ = binary.Write(&b, binary.LittleEndian, s)
	}
	b.Write(bytes.Repeat([]byte("n"), names-1))
	b.WriteByte(0)
	return b.Bytes()
}

func TestBomb(t *testing.T) {
	for _, sections := range []uint16{maxSections, 60000} {
		b := bomb(sections, 1<<20)
		most := readingtest.Live(t, func() {
			f, err := New(reading.New().Of(bytes.NewReader(b)))
			if (err == nil) != (sections <= maxSections) {
				t.Errorf("%d sections: %v", sections, err)
			}
			if err == nil {
				if _, ok := f.Section(".text"); ok {
					t.Error("it has no .text")
				}
			}
		})
		t.Logf("%d sections, names of %d bytes: at most %d KiB were held", sections, 1<<20, most>>10)
	}
}

// FuzzFile reads the headers of arbitrary files, repeated without end: none may panic, hold
// more than is allowed, or go on.
func FuzzFile(f *testing.F) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	head := make([]byte, 4096)
	_, _ = io.ReadFull(self, head)
	f.Add(head, false)
	f.Add(head[:64], true)
	f.Add(bomb(8, 64), true)
	f.Add(bomb(maxSections, 64)[:200], true)
	f.Fuzz(func(t *testing.T, b []byte, again bool) {
		var r io.ReaderAt = bytes.NewReader(b)
		if again && len(b) > 0 {
			r = readingtest.Endless(b)
		}
		readingtest.Live(t, func() {
			a := reading.New()
			file, err := New(a.Of(r))
			if err != nil {
				return
			}
			n := 0
			for s := range file.Sections() {
				_, _ = file.Linked(s)
				n++
			}
			if n > maxSections || len(file.Progs) > maxProgs {
				t.Errorf("%d sections, %d segments", n, len(file.Progs))
			}
			_, _ = file.Section(".text")
		})
	})
}
