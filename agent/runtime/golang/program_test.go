package golang

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/internal/testkit"
)

// toolchain is a Go version with libraries of its time; "" is the one that
// tests, with the libraries of this module.
type toolchain struct {
	version string
	modules string // directory in testdata with go.mod and go.sum; "": this module's
}

// variant is one way to build the program.
type variant struct {
	toolchain
	stripped, pie, trimpath, cgo bool
}

func (v variant) String() string {
	name := v.version
	if name == "" {
		name = "current"
	}
	if v.modules != "" {
		name += " " + v.modules
	}
	for _, o := range []struct {
		on   bool
		name string
	}{{v.pie, "pie"}, {v.stripped, "stripped"}, {v.trimpath, "trimpath"}, {v.cgo, "cgo"}} {
		if o.on {
			name += " " + o.name
		}
	}
	return name
}

// build compiles the program under test.
func (v variant) build(t testing.TB) string {
	t.Helper()
	testkit.Inputs(t, "agent/runtime/golang/testdata")
	out := filepath.Join(t.TempDir(), "program")
	args := []string{"build", "-p", "1", "-o", out}
	if v.stripped {
		args = append(args, "-ldflags=-s -w")
	}
	if v.pie {
		args = append(args, "-buildmode=pie")
	}
	if v.trimpath {
		args = append(args, "-trimpath")
	}
	dir := "testdata/program"
	if v.modules != "" {
		dir = v.module(t)
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = dir
	cgo := "CGO_ENABLED=0"
	if v.cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo, "GOFLAGS=-buildvcs=false")
	if v.version != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+v.version)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", v, err, text)
	}
	return out
}

// module copies the program into one with libraries of another time.
func (v variant) module(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/program")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join("testdata", v.modules, name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// event is what the program tells of itself, as in testdata/program/main.go.
type event struct {
	At                                 string
	High, Frame, Goid, Context, Stream uint64
	Version                            string
	Cgo                                bool
	Contexts                           map[string][2]uint64
}

// process is a running program under test.
type process struct {
	t    testing.TB
	dir  string
	in   io.Writer
	out  *bufio.Scanner
	mem  *os.File
	prog *Program
}

func start(t testing.TB, path string) *process {
	t.Helper()
	c := nativetest.Start(t, exec.Command(path))
	p := &process{t: t, dir: c.Dir, in: c.In, out: c.Out}
	var err error
	if p.mem, err = os.Open(p.dir + "/mem"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.mem.Close() })
	return p
}

// next waits for the program's next event; false at its end.
func (p *process) next() (e event, ok bool) {
	if !p.out.Scan() {
		return e, false
	}
	if err := json.Unmarshal(p.out.Bytes(), &e); err != nil {
		p.t.Fatalf("%q: %v", p.out.Text(), err)
	}
	return e, true
}

func (p *process) goOn() {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(err)
	}
}

// word reads 8 bytes of the process; 0 where there is nothing, as the kernel
// side would.
func (p *process) word(at uint64) uint64 {
	var b [8]byte
	if _, err := p.mem.ReadAt(b[:], int64(at)); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// slot reads a slot by its distance from the end of the stack, and reports
// whether one of its entries is there.
func (p *process) slot(s Slot, f Range, high uint64) (value uint64, ok bool) {
	for _, e := range s.Entries {
		if p.word(high-uint64(e.Return)) != e.ReturnPC+p.prog.Bias {
			continue
		}
		if e.Inside != 0 {
			pc := p.word(high-uint64(e.Inside)) - p.prog.Bias
			if pc < f.Low || pc > f.High {
				p.t.Errorf("%x is no return address in %x", pc, f)
			}
			live := false
			for _, r := range s.Live {
				live = live || pc >= r.Low && pc < r.High
			}
			if !live {
				p.t.Errorf("not live at %x in %x: %x", pc, f, s.Live)
			}
		}
		return p.word(high - uint64(e.Slot)), true
	}
	return 0, false
}

// byFrames reads a slot by walking the frame pointers up to the function.
func (p *process) byFrames(s Slot, f Range, frame uint64) (value uint64, ok bool) {
	for range 64 {
		if pc := p.word(frame+8) - p.prog.Bias; pc > f.Low && pc <= f.High {
			up := p.word(frame)
			return p.word(up + uint64(int64(s.Frame))), true
		}
		if frame = p.word(frame); frame == 0 {
			break
		}
	}
	return 0, false
}

// has says whether what the two ways find is the same, and is wanted.
func (p *process) has(what string, s Slot, f Range, e event, right func(v uint64) bool) bool {
	v, ok := p.slot(s, f, e.High)
	w, ok2 := p.byFrames(s, f, e.Frame)
	if !ok && !ok2 {
		return false
	}
	if !ok2 || ok && v != w {
		p.t.Errorf("%s: %x from the end of the stack (%v), %x by frames (%v)", what, v, ok, w, ok2)
	}
	if !right(w) {
		p.t.Errorf("%s: %x is not what the program says", what, w)
	}
	if !ok {
		p.t.Errorf("%s: not found from the end of the stack", what)
	}
	return true
}

// check looks at the process as it waits at an event.
func (p *process) check(e event) {
	l := p.prog.Layout
	at := func(x uint64, offs ...uint32) uint64 { // follows pointers
		for _, o := range offs {
			x = p.word(x + uint64(o))
		}
		return x
	}
	found := false
	switch e.At {
	case "start":
		p.contexts(e)
		return
	case "http1 client":
		for _, c := range l.HTTP1Clients {
			found = found || p.has(e.At, c.Request, c.WriteLoop, e, func(v uint64) bool {
				if c.Via >= 0 {
					v = at(v, uint32(c.Via))
				}
				// The transport derives its own context since Go 1.23.
				return p.leads(v+uint64(c.Context), e.Context)
			})
			p.has(e.At, c.Conn, c.WriteLoop, e, func(v uint64) bool {
				return strings.HasPrefix(p.text(at(v, c.Writer, c.Buffer.Bytes)), "GET /")
			})
		}
	case "http1 server":
		for _, s := range l.HTTP1Servers {
			found = found || p.has(e.At, s.Conn, s.Serve, e, func(v uint64) bool {
				conn := at(v, s.Cancel, 8) // what the closure has
				return p.leadsTo(e.Context, conn)
			})
		}
	case "http2 server", "x/net/http2 server":
		for _, s := range l.HTTP2Servers {
			for _, slot := range s.Writers {
				v, ok := p.byFrames(slot, s.RunHandler, e.Frame)
				st := at(v, s.WriterState, s.StateStream)
				conn := at(st, s.StreamConn)
				if !ok || conn == 0 || !p.leadsTo(e.Context, at(conn, s.BaseCtx+8)) {
					continue // not this one
				}
				found = p.has(e.At, slot, s.RunHandler, e, func(uint64) bool {
					if s.NoMap == Fits {
						if got := p.find(s.StreamsMap, at(conn, s.Streams), uint32(at(st, s.StreamID))); got != st {
							p.t.Errorf("%s: stream %x in the map, %x in the writer", e.At, got, st)
						}
					}
					return at(st, s.StreamCtx+8) == e.Context
				})
			}
		}
	case "http2 client", "x/net/http2 client":
		for _, c := range l.HTTP2Clients {
			found = found || p.has(e.At, c.Stream, c.DoRequest, e, func(v uint64) bool {
				id := uint32(at(v, c.ID))
				return id%2 == 1 && id < 100 && p.leads(v+uint64(c.Context), e.Context)
			})
		}
	case "grpc server":
		for _, s := range l.GRPCServers {
			found = found || p.has(e.At, s.Stream, s.HandleStream, e, func(v uint64) bool {
				if id := v + uint64(s.StreamID); s.StreamVia < 0 && uint32(p.word(id)) != 3 {
					p.t.Errorf("stream %d, want 3", uint32(p.word(id)))
				}
				return v == e.Stream
			})
		}
	case "grpc client":
		if refused := l.Refused[GRPCClients]; refused.Reason == MapBefore124 {
			return
		}
		for _, c := range l.GRPCClients {
			loopy, ok := p.byFrames(c.Loopy, c.Run, e.Frame)
			if !ok {
				continue
			}
			found = true
			client := at(loopy, c.GoAway, 8)
			if at(client, c.ClientFramer) != at(loopy, c.LoopyFramer) || at(client, c.ClientLoopy) != loopy {
				p.t.Errorf("grpc client: %x does not belong to %x", client, loopy)
			}
			stream := p.find(c.Streams, at(client, c.ActiveStreams), 3)
			if at(stream, c.StreamClient) != client {
				p.t.Errorf("grpc client: stream 3 is %x", stream)
			}
			if c.StreamVia >= 0 {
				stream = at(stream, uint32(c.StreamVia))
			}
			if uint32(at(stream, c.StreamID)) != 3 || !p.leads(stream+uint64(c.StreamCtx), e.Context) {
				p.t.Errorf("grpc client: stream %x has another id or context", stream)
			}
			writer := at(loopy, c.LoopyFramer, c.FramerWriter)
			buf := at(writer, c.Buffer.Bytes)
			if c.Buffer.Handle {
				buf = at(buf, 0)
			}
			if n := at(writer, c.Buffer.Used); n < 40 || !strings.Contains(p.text(buf), "a message of some") {
				p.t.Errorf("grpc client: %d bytes, %q", n, p.text(buf))
			}
		}
	case "end":
		return
	}
	if !found {
		p.t.Errorf("%s: nothing found", e.At)
	}
}

func (p *process) text(at uint64) string {
	b := make([]byte, 256)
	n, _ := p.mem.ReadAt(b, int64(at))
	return string(b[:n])
}

// leads follows the interface at an address up its parents to a context.
func (p *process) leads(at, to uint64) bool {
	return p.chain(p.word(at), p.word(at+8), to)
}

// leadsTo follows a context whose itab is unknown: any that gets there.
func (p *process) leadsTo(data, to uint64) bool {
	for _, c := range p.prog.Contexts {
		if p.chain(c.Itab+p.prog.Bias, data, to) {
			return true
		}
	}
	return false
}

func (p *process) chain(itab, data, to uint64) bool {
	for range 16 {
		if data == to {
			return data != 0
		}
		var c *Context
		for i := range p.prog.Contexts {
			if p.prog.Contexts[i].Itab+p.prog.Bias == itab {
				c = &p.prog.Contexts[i]
			}
		}
		if c == nil || c.Parent < 0 {
			return false
		}
		at := data
		if c.Via >= 0 {
			at = p.word(at + uint64(c.Via))
		}
		itab, data = p.word(at+uint64(c.Parent)), p.word(at+uint64(c.Parent)+8)
	}
	return false
}

// contexts: all that the program made lead to its first one.
func (p *process) contexts(e event) {
	base := e.Contexts["*context.cancelCtx"]
	for name, w := range e.Contexts {
		if !p.chain(w[0], w[1], base[1]) {
			p.t.Errorf("%s does not lead to its parent", name)
		}
		for _, c := range p.prog.Contexts {
			want := ContextOther
			switch c.Type {
			case "*context.valueCtx":
				want = ContextValue
			case "*context.cancelCtx", "*context.timerCtx":
				want = ContextCancel
			case "*context.afterFuncCtx":
				continue
			}
			if c.Kind != want {
				p.t.Errorf("%s is of kind %d", c.Type, c.Kind)
			}
		}
	}
}

// find looks a key up in a map, by its hash.
func (p *process) find(g Map, m uint64, key uint32) uint64 {
	if g.Hash.Kind != HashAESENC {
		p.t.Errorf("no hash: %+v", g)
		return 0
	}
	group := func(at uint64) (value uint64, empty bool) {
		ctrl := p.word(at)
		for i := range uint64(8) {
			c := byte(ctrl >> (8 * i))
			empty = empty || c == 0x80
			if c < 0x80 && uint32(p.word(at+uint64(g.Key)+i*uint64(g.Stride))) == key {
				value = p.word(at + uint64(g.Elem) + i*uint64(g.Stride))
			}
		}
		return value, empty
	}
	dir, n := p.word(m+16), p.word(m+24)
	if n == 0 {
		v, _ := group(dir)
		return v
	}
	hash := p.hash(g.Hash, p.word(m+8), key)
	index := uint64(0)
	if n > 1 {
		index = hash >> (p.word(m+32) >> 8 & 63)
	}
	table := p.word(dir + 8*index)
	groups, mask := p.word(table+16), p.word(table+24)
	for off, i := hash>>7&mask, uint64(1); i < 64; i++ {
		v, empty := group(groups + off*uint64(g.Group))
		if v != 0 || empty {
			return v
		}
		off = (off + i) & mask
	}
	return 0
}

// hash is the program's memhash32, with its keys.
func (p *process) hash(h Hash, seed uint64, key uint32) uint64 {
	var s [16]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	binary.LittleEndian.PutUint32(s[4*h.Lane:], key)
	for i := range 3 {
		var k [16]byte
		binary.LittleEndian.PutUint64(k[:], p.prog.HashKeys[2*i])
		binary.LittleEndian.PutUint64(k[8:], p.prog.HashKeys[2*i+1])
		s = aesenc(s, k)
	}
	return binary.LittleEndian.Uint64(s[:])
}
