package sdk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

func compile(t *testing.T, to string, args ...string) string {
	t.Helper()
	to = filepath.Join(t.TempDir(), to)
	if out, err := exec.Command("gcc", append([]string{"-O1", "-o", to}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %q: %v\n%s", args, err, out)
	}
	return to
}

// The variable is found in each thread where the thread itself has it, however it is linked.
func TestRead(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	const program, variable = "testdata/program.c", "testdata/variable.c"
	library := func(name string, args ...string) string {
		return compile(t, name, append(args, "-shared", "-fPIC", variable)...)
	}
	loads := compile(t, "loads", program, "-ldl", "-lpthread")
	own := compile(t, "own", "-DEXE", "-rdynamic", program, variable, "-lpthread")
	desc := library("libdesc.so", "-mtls-dialect=gnu2")
	for name, tc := range map[string]struct {
		command []string
		module  bool // in a block of its own
		fails   string
	}{
		"executable":               {command: []string{own, ""}},
		"executable, with context": {command: []string{own, "", "tlsdesc_v1_dev"}},
		"position dependent":       {command: []string{compile(t, "fixed", "-no-pie", "-DEXE", "-rdynamic", program, variable, "-lpthread"), ""}},
		"descriptors":              {command: []string{loads, desc}},
		"descriptors, no room":     {command: []string{loads, library("liblarge.so", "-mtls-dialect=gnu2", "-include", "testdata/large.h")}, module: true},
		"general dynamic":          {command: []string{loads, library("libgeneral.so", "-mtls-dialect=gnu")}, module: true},
		"bound to itself":          {command: []string{loads, library("libitself.so", "-mtls-dialect=gnu", "-Wl,-Bsymbolic")}, module: true},
		"initial exec":             {command: []string{loads, library("libinitial.so", "-ftls-model=initial-exec")}},
		"later context":            {command: []string{loads, desc, "tls_v1"}},
		"another schema":           {command: []string{loads, desc, "go_pprof_labels_v1"}, fails: `"go_pprof_labels_v1"`},
		"not exported":             {command: []string{compile(t, "hidden", "-DEXE", program, variable, "-lpthread"), ""}, fails: ErrAbsent.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			dir, lines := nativetest.Run(t, tc.command[0], tc.command[1:]...)
			v, err := Read(dir, reading.New())
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) || errors.Is(err, ErrAbsent) != (tc.fails == ErrAbsent.Error()) {
					t.Fatal(err)
				}
				return
			}
			if err != nil || v.Module != 0 != tc.module {
				t.Fatalf("%+v, %v", v, err)
			}
			m := native.NewMemory(nativetest.Memory(t, dir), reading.New())
			for _, line := range lines {
				var thread, want uint64
				if _, err := fmt.Sscan(line, &thread, &want); err != nil {
					t.Fatal(err)
				}
				got := v.Path.Follow(m, thread)
				if v.Module != 0 {
					if vector := m.Word(thread + uint64(v.Path[0])); m.Word(vector-16) < uint64(v.Module) || want == 0 {
						continue // it has no such block yet
					}
				}
				if got != want {
					t.Errorf("thread %#x: %#x by %v, want %#x", thread, got, v.Path, want)
				}
			}
			if len(lines) != 6 {
				t.Errorf("%q", lines)
			}
		})
	}
	// Most processes have no such thing.
	dir, _ := nativetest.Run(t, "sh", "-c", "echo ready; read line")
	if _, err := Read(dir, reading.New()); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	if _, err := Read("/proc/0", reading.New()); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
}

// golden is a process's context, at nativetest.Base.
func golden(schema string, old bool) []byte {
	text := func(b []byte, field protowire.Number, text string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
	}
	attribute := func(b []byte, field protowire.Number, key, value string) []byte {
		return text(b, field, string(text(text(nil, 1, key), 2, string(text(nil, 1, value)))))
	}
	resource := attribute(nil, 1, "service.name", "shop")
	payload := attribute(text(nil, 1, string(resource)), 2, schemaKey, schema)
	if old {
		payload = attribute(resource, 1, schemaKey, schema)
		payload = protowire.AppendVarint(protowire.AppendTag(payload, 2, protowire.VarintType), 7)
	}
	head := binary.LittleEndian.AppendUint32([]byte(signature), 2)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(payload)))
	head = binary.LittleEndian.AppendUint64(head, 1)
	head = binary.LittleEndian.AppendUint64(head, nativetest.Base+uint64(len(head))+8)
	return append(head, payload...)
}

func TestContext(t *testing.T) {
	read := func(b []byte) []byte {
		return readContext(native.NewMemory(nativetest.Fake(b), reading.New()), nativetest.Base)
	}
	for _, old := range []bool{true, false} {
		if got := schemaOf(read(golden("tls_v1", old))); got != "tls_v1" {
			t.Errorf("%q", got)
		}
	}
	for name, change := range map[string]func([]byte) []byte{
		"signature": func(b []byte) []byte { b[0] = 'o'; return b },
		"version":   func(b []byte) []byte { b[8] = 3; return b },
		"changes":   func(b []byte) []byte { clear(b[16:24]); return b },
		"size":      func(b []byte) []byte { b[14] = 0xff; return b },
		"elsewhere": func(b []byte) []byte { b[31] = 0xff; return b },
		"cut off":   func(b []byte) []byte { return b[:len(b)-1] },
		"head":      func(b []byte) []byte { return b[:31] },
	} {
		if got := read(change(golden("tls_v1", false))); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := schemaOf(golden("tls_v1", false)[32:80]); got != "" {
		t.Errorf("of a message that is cut off: %q", got)
	}
}

// FuzzContext reads contexts that change and lie.
func FuzzContext(f *testing.F) {
	f.Add(golden("tls_v1", false), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		readingtest.Live(t, func() {
			for _, source := range nativetest.Sources(b) {
				source := &nativetest.Torn{Source: source, Random: rand.New(rand.NewPCG(seed, 0)), Rate: float64(seed%5) / 100}
				if payload := readContext(native.NewMemory(source, reading.New()), nativetest.Base); payload != nil {
					schemaOf(payload)
				}
				if source.Reads > 100 {
					t.Errorf("%d reads", source.Reads)
				}
			}
			schemaOf(b)
		})
	})
}
