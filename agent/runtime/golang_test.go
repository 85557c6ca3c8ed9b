package runtime

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/runtime/golang"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/bpf"
)

// goServerEnv makes the test binary a service with net/http.
const goServerEnv = "TARE_TEST_GO_SERVER"

func goServer() {
	s := httptest.NewServer(http.NotFoundHandler())
	resp, err := http.Get(s.URL)
	if err != nil {
		panic(err)
	}
	_ = resp.Body.Close()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
}

// running starts a program that lives as long as its input is open.
func running(t *testing.T, path string, ready bool, environ ...string) (p *Process, end func()) {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), environ...)
	c := nativetest.Start(t, cmd)
	if ready {
		c.Ready(t)
	}
	return &Process{PID: c.PID, StartTime: 1, Exe: path, Dir: c.Dir}, c.End
}

// What the kernel side is told of two processes of a program, and what is left of
// it when they end.
func TestGoPrograms(t *testing.T) {
	var d Detector
	m := fakeMaps{}
	var processes []*Process
	var ends []func()
	for range 2 {
		p, end := running(t, "/proc/self/exe", true, goServerEnv+"=1")
		r := d.Detect(p)
		if r.Name != "Go" || r.Linking != config.Goroutine {
			t.Fatalf("%+v", r)
		}
		if err := r.Attach(p, m); err != nil {
			t.Fatal(err)
		}
		processes, ends = append(processes, p), append(ends, end)
	}
	if len(m["go_programs"]) != 2 {
		t.Errorf("%d programs", len(m["go_programs"]))
	}
	for _, p := range processes {
		program, ok := m["go_programs"][uint32(p.PID)].(bpf.GoProgram)
		if !ok {
			t.Fatalf("%d is not told", p.PID)
		}
		kinds := map[uint32]int{}
		for k, v := range m["go_contexts"] {
			key, c := k.(bpf.GoKey), v.(bpf.GoContext)
			if key.Tgid != uint32(p.PID) {
				continue
			}
			if key.Word < program.ItabLow || key.Word > program.ItabHigh {
				t.Errorf("the context %#x is not within %#x and %#x", key.Word, program.ItabLow, program.ItabHigh)
			}
			kinds[c.Kind]++
		}
		for _, kind := range []golang.ContextKind{golang.ContextOther, golang.ContextValue, golang.ContextCancel} {
			if kinds[contextKinds[kind]] == 0 {
				t.Errorf("no context of kind %d among %v", kind, kinds)
			}
		}
		places := map[uint32]int{}
		for _, e := range program.Entry {
			places[e.Place]++
			if e.Place != 0 && (e.Pc == 0 || e.Start == 0 || e.Start >= e.Pc) {
				t.Errorf("%+v", e)
			}
		}
		if places[uint32(bpf.GoServe)] == 0 || places[uint32(bpf.GoWriteLoop)] == 0 {
			t.Errorf("places %v", places)
		}
		if program.KeyType == 0 || program.ConnCancel == 0 || program.RequestContext == 0 || program.Id == 0 || program.Cancelled == 0 {
			t.Errorf("%+v", program)
		}
	}
	of := func(pid int) int {
		return len(slices.DeleteFunc(slices.Collect(maps.Keys(m["go_contexts"])), func(k any) bool { return k.(bpf.GoKey).Tgid != uint32(pid) }))
	}
	first, second := processes[0].PID, processes[1].PID
	if of(first) == 0 || of(first) != of(second) {
		t.Errorf("%d and %d contexts of one program", of(first), of(second))
	}
	ends[0]()
	r := d.Detect(processes[1])
	if err := r.Detach(first, m); err != nil || of(first) > 0 || of(second) == 0 || len(m["go_programs"]) != 1 {
		t.Errorf("%v; %d and %d contexts of %d programs are left", err, of(first), of(second), len(m["go_programs"]))
	}
	if err := r.Attach(processes[0], m); err == nil || of(first) > 0 {
		t.Errorf("a process that has ended is attached: %v", err)
	}
	if err := r.Detach(second, m); err != nil || len(m["go_programs"])+len(m["go_contexts"]) > 0 {
		t.Errorf("%v; left: %v", err, m)
	}
}

// Programs in Go that cannot be linked: each says why, all processes with one reason
// are on one Runtime, and the kernel side is told nothing.
func TestGoRefused(t *testing.T) {
	gofmt, err := exec.LookPath("gofmt")
	if err != nil {
		t.Skip("needs gofmt, a program without net/http")
	}
	plain, _ := running(t, gofmt, false)

	// Packers and linkers of others leave no table of functions.
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(self))
	if err != nil {
		t.Fatal(err)
	}
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_NOTE {
			self[prog.Off+prog.Filesz-8] ^= 1 // a build id of its own
		}
	}
	packed := filepath.Join(t.TempDir(), "packed")
	if err := os.WriteFile(packed, bytes.ReplaceAll(self, []byte("\xf1\xff\xff\xff\x00\x00"), make([]byte, 6)), 0o600); err != nil {
		t.Fatal(err)
	}
	like, _ := running(t, "/proc/self/exe", true, goServerEnv+"=1")
	crafted := func(t *testing.T) *Process {
		dir := t.TempDir()
		for name, target := range map[string]string{"exe": packed, "auxv": like.Dir + "/auxv", "mem": like.Dir + "/mem"} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		return &Process{PID: like.PID, StartTime: 1, Exe: packed, Dir: dir}
	}

	for name, c := range map[string]struct {
		of  func(t *testing.T) *Process
		why string
	}{
		"no server": {func(*testing.T) *Process { return plain }, "Go: http1 server: not in the program"},
		"packed":    {crafted, "Go: no table of functions (pclntab): packed, or of an unknown version"},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(Detector).Detect(c.of(t))
			if r.Name != "Go" || r.Linking != config.None || r.Why != c.why || r.Attach != nil || r.Detach != nil {
				t.Errorf("%+v, want %q", r, c.why)
			}
			if again := new(Detector).Detect(c.of(t)); again != r {
				t.Errorf("another runtime for the same reason: %+v", again)
			}
		})
	}
}

// Addresses are the process's, of several copies of a mechanism the first counts,
// and what has no room is left out.
func TestKernelSide(t *testing.T) {
	const bias = 0x10000
	slot := func(pc uint64, at ...uint32) (s golang.Slot) {
		s.Unique = true
		for _, a := range at {
			s.Entries = append(s.Entries, golang.Entry{Start: pc - 0x100, ReturnPC: pc, Return: a, Slot: a + 8})
		}
		return s
	}
	l := &golang.Layout{
		Goroutine: golang.Goroutine{StackHi: 8, ID: 152, StartPC: 160},
		Contexts: []golang.Context{
			{Itab: 0x300, Kind: golang.ContextCancel, Via: -1, Parent: 0},
			{Itab: 0x100, Kind: golang.ContextValue, Via: -1, Parent: 0},
			{Itab: 0x200, Kind: golang.ContextOther, Via: 16, Parent: 8},
		},
		HTTP1Servers: []golang.HTTP1Server{{Conn: slot(0x1000, 40), Cancel: 16, ContextKey: 0x50}, {Conn: slot(0x2000, 40), Cancel: 99}},
		HTTP1Clients: []golang.HTTP1Client{
			{Request: golang.Slot{Entries: []golang.Entry{{ReturnPC: 0x3000, Return: 40}}}, Context: 77, Via: 7}, // which slot it is is not known
			{Request: slot(0x4000, 24), Context: 32, Via: -1},
			{Request: slot(0x5000, 24), Context: 99, Via: -1},
		},
		GRPCServers: []golang.GRPCServer{{StreamType: 0x60, Stream: slot(0x6000, 48)}},
	}
	p, contexts := kernelSide(&golang.Program{Layout: l, Bias: bias})
	want := bpf.GoProgram{}.Entry
	for i, e := range []struct {
		pc    uint64
		at    uint32
		place bpf.GoPlace
	}{{bias + 0x1000, 40, bpf.GoServe}, {bias + 0x4000, 24, bpf.GoWriteLoop}, {bias + 0x6000, 48, bpf.GoGRPCCall}} {
		want[i].Start, want[i].Pc, want[i].At, want[i].Slot, want[i].Place = e.pc-0x100, e.pc, e.at, e.at+8, uint32(e.place)
	}
	if p.Entry != want {
		t.Errorf("%+v\nwant %+v", p.Entry, want)
	}
	if p.ItabLow != bias+0x100 || p.ItabHigh != bias+0x300 || p.Stack != 0 || p.Id != 152 || p.Start != 160 || p.ConnCancel != 16 || p.KeyType != bias+0x50 ||
		p.RequestContext != 32 || p.RequestVia != -1 || p.StreamType != bias+0x60 {
		t.Errorf("%+v", p)
	}
	if len(contexts) != 3 || contexts[bias+0x200] != (bpf.GoContext{Via: 16, Parent: 8, Kind: contextKinds[golang.ContextOther]}) {
		t.Errorf("%+v", contexts)
	}

	many := make([]uint32, 2*len(p.Entry))
	for i := range many {
		many[i] = 8
	}
	l.HTTP1Servers[0].Conn = slot(0x1000, many...)
	if p, _ = kernelSide(&golang.Program{Layout: l}); p.Entry[len(p.Entry)-1].Place != uint32(bpf.GoServe) {
		t.Errorf("%+v", p.Entry)
	}
}

// The same reason for all processes of an executable: no numbers of one of them.
func TestUnreadable(t *testing.T) {
	for _, err := range []error{golang.Refusal{Reason: golang.NoModule}, fmt.Errorf("reading: %w", golang.Refusal{Reason: golang.NoModule, What: "x"}), os.ErrNotExist} {
		if text := unreadable(err).Error(); strings.Contains(text, "reading") || text == os.ErrNotExist.Error() {
			t.Errorf("%v: %q", err, text)
		}
	}
}
