package runtime

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
	"github.com/tare-trace/tare/bpf"
)

// data is an executable without sections, with one segment of data of a size at offset 4096.
func data(size uint64) []byte {
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64),
			Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: 4096, Vaddr: 4096, Filesz: size, Memsz: size, Align: 4096},
	} {
		_ = binary.Write(&b, binary.LittleEndian, part)
	}
	return append(b.Bytes(), make([]byte, 4096-b.Len())...)
}

// info is build info with a version of a length.
func info(length uint64, version string) []byte {
	b := append([]byte(infoMagic), 8, infoInline)
	b = append(b, make([]byte, infoHeader-len(b))...)
	return append(binary.AppendUvarint(b, length), version...)
}

// The version of Go is what debug/buildinfo reads, in executables without sections too.
func TestGoVersion(t *testing.T) {
	files := map[string]string{}
	for _, pattern := range []string{"/proc/self/exe", "/usr/bin/python3", "/lib/*/libc.so.6", "/usr/local/go/bin/*", "/usr/local/go/pkg/tool/*/*"} {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			files[path] = ""
			if info, err := buildinfo.ReadFile(path); err == nil {
				files[path] = info.GoVersion
			}
		}
	}
	for name, b := range map[string][]byte{
		"data":    append(data(1<<20), append(make([]byte, 512<<10-3*infoAlign), info(8, "go1.99.9")...)...),
		"nothing": data(1 << 20),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, append(b, make([]byte, 1<<20)...), 0o600); err != nil {
			t.Fatal(err)
		}
		if files[path] = ""; name == "data" {
			files[path] = "go1.99.9"
		}
	}
	found := 0
	for path, want := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := goVersion(reading.New().Of(f)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if _ = f.Close(); want != "" {
			found++
		}
	}
	if found < 2 {
		t.Errorf("%d of %d are Go's", found, len(files))
	}
}

// FuzzGoVersion reads arbitrary executables, repeated without end.
func FuzzGoVersion(f *testing.F) {
	f.Add(append(data(1<<50), info(1<<60, "go1")...))
	f.Add(append(data(1<<30), info(8, "go1.99.9")...))
	f.Add([]byte(infoMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		readingtest.Live(t, func() {
			for _, r := range []io.ReaderAt{bytes.NewReader(b), readingtest.Endless(append(b[:len(b):len(b)], 0))} {
				if v := goVersion(reading.New().Of(r)); len(v) > maxVersion {
					t.Errorf("%d bytes of a version", len(v))
				}
			}
		})
	})
}

// sparse writes an executable of a terabyte.
func sparse(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(data(1 << 40)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
}

// What a process shows of itself may be without end: its runtime is not known then, nothing of it is
// linked, and that is counted. Where it was known, it stays so.
func TestHostileProcesses(t *testing.T) {
	var many strings.Builder
	for i := range 60000 {
		fmt.Fprintf(&many, "%x-%x r-xp 00000000 08:01 7 /%d/%s\n", 0x1000*i, 0x1000*(i+1), i, strings.Repeat("x", 200))
	}
	for name, c := range map[string]struct {
		make  func(t *testing.T, dir string)
		limit reading.Limit // "": it is read as far as it can be
	}{
		"an executable of a terabyte": {func(t *testing.T, dir string) { sparse(t, filepath.Join(dir, "exe")) }, reading.TooManyBytes},
		"60,000 libraries": {func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(many.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}, reading.Shape},
		"a FIFO for an executable": {func(t *testing.T, dir string) {
			if err := unix.Mkfifo(filepath.Join(dir, "exe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"a device for an executable": {func(t *testing.T, dir string) {
			if err := os.Symlink("/dev/zero", filepath.Join(dir, "exe")); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := process(t, "/opt/app", "/lib/libc.so.6")
			p.PID = 1 << 20
			p.StartTime = uint64(time.Now().UnixNano())
			c.make(t, p.Dir)
			before := reading.Unread(c.limit)
			var d Detector
			var r *Runtime
			synctest.Test(t, func(t *testing.T) { // however long it takes on a busy machine
				readingtest.Live(t, func() { r = d.Detect(p) })
			})
			switch {
			case c.limit == "" && (r != unknown || p.GoVersion() != ""):
				t.Errorf("%+v", r)
			case c.limit != "" && (r.Name != unknown.Name || r.Linking != config.None || !strings.HasSuffix(r.Why, c.limit.Error()) || reading.Unread(c.limit) == before):
				t.Errorf("%+v, counted %d", r, reading.Unread(c.limit)-before)
			}
		})
	}
}

// A runtime that is known stays so when its process shows too much, and a process of which
// too much was read is read again later.
func TestKnownStaysKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Detector
		p := process(t, "/opt/app", "/x/libjvm.so")
		p.PID = 1<<20 + 1
		small, large := filepath.Join(p.Dir, "maps"), filepath.Join(p.Dir, "large")
		var text strings.Builder
		for i := range 60000 {
			fmt.Fprintf(&text, "%x-%x r-xp 00000000 08:01 7 /%d\n", 0x1000*i, 0x1000*(i+1), i)
		}
		if err := os.WriteFile(large, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		detect := func(want string, linking config.Linking) {
			t.Helper()
			time.Sleep(2 * again)
			q := *p
			if r := d.Detect(&q); r.Name != want || r.Linking != linking {
				t.Errorf("%+v, want %s", r, want)
			}
		}
		detect("JVM", config.Task)
		if err := os.Rename(large, small); err != nil {
			t.Fatal(err)
		}
		detect("JVM", config.Task)
		p.StartTime++ // another one, which shows too much from the beginning
		detect("unknown", config.None)
		jvm := process(t, "", "/x/libjvm.so")
		if err := os.Rename(filepath.Join(jvm.Dir, "maps"), small); err != nil {
			t.Fatal(err)
		}
		detect("JVM", config.Task)
	})
}

// A look at a process that shows too much tells the kernel side that nothing is known of it.
func TestHostileLooks(t *testing.T) {
	page := table(t, 0, 4096)
	var text strings.Builder
	for range 60000 {
		text.WriteString(lineOf(page)[:len(lineOf(page))-1] + " [anon:" + strings.Repeat("x", 60) + "]\n")
	}
	dir := mapped(t, text.String())
	for target, name := range map[string]string{"/proc/self/exe": "exe", "/": "root"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, needed := range map[string]uint32{"java": 0, "node": 1} {
		m := fakeMaps{}
		r := byName[name]
		p := &Process{PID: 1<<20 + 2, StartTime: uint64(time.Now().UnixNano()), Exe: "/usr/bin/" + name, Dir: dir}
		look := func() error {
			var err error
			synctest.Test(t, func(t *testing.T) { // however long it takes on a busy machine
				readingtest.Live(t, func() { err = r.Look(p, m) })
				if _, published := LookPublished(p, m); published == nil && name == "java" {
					t.Error("no error")
				}
			})
			return err
		}
		for range 3 {
			if err := look(); err == nil {
				t.Error("no error")
			}
		}
		told, ok := m[taskPrograms][uint32(p.PID)].(bpf.TaskProgram)
		want := bpf.TaskProgram{State: bpf.TaskRead}
		if want.Shim.Needed = needed; !ok || told != want {
			t.Errorf("%s: %+v, want %+v", name, told, want)
		}
		// What was known stays.
		want.Shim.Table = 64
		if err := m.Put(taskPrograms, uint32(p.PID), want); err != nil {
			t.Fatal(err)
		}
		if err := look(); err == nil || needed == 0 && m[taskPrograms][uint32(p.PID)] != want {
			t.Errorf("%s: %+v, %v", name, m[taskPrograms][uint32(p.PID)], err)
		}
		if err := r.Detach(p.PID, m); err != nil || tasksOf.knows(p) {
			t.Errorf("%s: %v, and it is known still", name, err)
		}
	}
}

// Reasons that processes bring about are not remembered without end.
func TestRefusalsAreBounded(t *testing.T) {
	r := &Runtime{Name: "bounded"}
	for i := range 3 * maxRefusals {
		v := r.refused(errors.New(fmt.Sprint(i, strings.Repeat("x", 1<<10))))
		if len(v.Why) > maxWhy || v.Linking != config.None || v != r.refused(errors.New(fmt.Sprint(i, strings.Repeat("x", 1<<10)))) {
			t.Fatalf("%+v", v)
		}
	}
	if n := len(refusals.of); n > maxRefusals+len(registry)+1 {
		t.Errorf("%d reasons", n)
	}
}
