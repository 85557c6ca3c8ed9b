package runtime

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/runtime/golang"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/bpf"
)

var _ = register(Runtime{
	Name:    "Go",
	Detect:  isGo,
	Linking: config.Goroutine,
	Why:     "Go: goroutines and contexts are read from the program's memory",
	Check:   goPrograms.check,
	Attach:  goPrograms.attach,
	Detach:  goPrograms.detach,
	FaultIn: goPrograms.faultIn,
})

var goPrograms = programs{contexts: map[int][]bpf.GoKey{}}

// programs reads programs in Go, and tells the kernel side where in them things
// are.
type programs struct {
	reader golang.Reader

	mu       sync.Mutex
	contexts map[int][]bpf.GoKey // of attached processes
}

// check reports why nothing of a program can be linked: first that it has neither
// server, net/http's or gRPC's, which explains what else may be missing.
func (g *programs) check(p *Process) error {
	l, err := g.read(p)
	if err != nil {
		return unreadable(err)
	}
	for _, m := range []golang.Mechanism{golang.HTTP1Servers, golang.Goroutines, golang.Contexts} {
		if m == golang.HTTP1Servers && l.Refused[golang.GRPCServers].Reason == golang.Fits {
			continue
		}
		if r := l.Refused[m]; r.Reason != golang.Fits {
			return errors.New(m.String() + ": " + r.Error())
		}
	}
	return nil
}

func (g *programs) read(p *Process) (*golang.Program, error) {
	return readOf(p, func(a *reading.Account) (*golang.Program, error) { return g.reader.Read(p.Dir, a) })
}

// unreadable is the reason alone if it is the program's: one text for all
// processes of an executable.
func unreadable(err error) error {
	if r := (golang.Refusal{}); errors.As(err, &r) {
		return r
	}
	return errors.New(golang.Unreadable.String())
}

func (g *programs) attach(p *Process, m Maps) error {
	l, err := g.read(p)
	if err != nil {
		return err
	}
	program, contexts := kernelSide(l)
	keys := make([]bpf.GoKey, 0, len(contexts))
	for itab, c := range contexts {
		key := bpf.GoKey{Word: itab, Tgid: uint32(p.PID)}
		if err = m.Put("go_contexts", key, c); err != nil {
			break
		}
		keys = append(keys, key)
	}
	g.mu.Lock()
	g.contexts[p.PID] = keys
	g.mu.Unlock()
	if err == nil {
		err = m.Put("go_programs", uint32(p.PID), program)
	}
	if err != nil {
		return errors.Join(err, g.detach(p.PID, m))
	}
	return nil
}

func (g *programs) faultIn(p *Process, code uint32) error {
	_, err := readOf(p, func(a *reading.Account) (none struct{}, err error) {
		l, err := g.reader.Read(p.Dir, a)
		if err != nil {
			return none, err
		}
		memory, err := os.Open(filepath.Join(p.Dir, "mem"))
		if err != nil {
			return none, err
		}
		defer func() { _ = memory.Close() }()
		return none, l.FaultIn(a.Of(memory), code)
	})
	return err
}

func (g *programs) detach(pid int, m Maps) error {
	g.mu.Lock()
	keys := g.contexts[pid]
	delete(g.contexts, pid)
	g.mu.Unlock()
	err := m.Delete("go_programs", uint32(pid))
	for _, key := range keys {
		err = errors.Join(err, m.Delete("go_contexts", key))
	}
	return err
}

// kernelSide is a program as golang.bpf.h knows it, and its contexts by their
// itabs. Of a mechanism with several copies it has the first.
func kernelSide(l *golang.Program) (bpf.GoProgram, map[uint64]bpf.GoContext) {
	contexts := map[uint64]bpf.GoContext{}
	p := bpf.GoProgram{
		ItabLow: math.MaxUint64, Stack: l.Goroutine.StackHi - 8, Id: l.Goroutine.ID, Start: l.Goroutine.StartPC, Status: l.Goroutine.Status, Started: l.Goroutine.Parent,
		Cancelled: l.CancelErr, Key: l.ValueKey, Value: l.ValueVal,
		Text: l.Functions.Text + l.Bias, Functions: l.Functions.Table + l.Bias, Nfunc: l.Functions.Len,
		Pctab: l.Functions.PC + l.Bias, Gofunc: l.Functions.Maps + l.Bias,
	}
	for _, c := range l.Contexts {
		itab := c.Itab + l.Bias
		p.ItabLow, p.ItabHigh = min(p.ItabLow, itab), max(p.ItabHigh, itab)
		contexts[itab] = bpf.GoContext{Via: c.Via, Parent: c.Parent, Kind: contextKinds[c.Kind]}
	}
	if l.TCP.Type != 0 {
		p.Tcp.Type, p.Tcp.Netfd, p.Tcp.Fd = l.TCP.Type+l.Bias, l.TCP.NetFD, l.TCP.FD
	}
	var entries []goEntry
	add := func(place bpf.GoPlace, s golang.Slot) {
		for _, e := range s.Entries {
			entries = append(entries, goEntry{place: place, Entry: e})
		}
	}
	for _, s := range l.HTTP1Servers[:min(1, len(l.HTTP1Servers))] {
		p.ConnCancel, p.KeyType = s.Cancel, s.ContextKey+l.Bias
		add(bpf.GoServe, s.Conn)
	}
	for _, c := range l.HTTP1Clients {
		if c.Request.Unique {
			p.RequestContext, p.RequestVia = c.Context, c.Via
			add(bpf.GoWriteLoop, c.Request)
			break
		}
	}
	for i, c := range l.HTTP2Clients {
		place := bpf.GoHTTP2Ask
		if i == 0 {
			p.StreamId, p.StreamContext = c.ID, c.Context
		} else if p.StreamId != c.ID || p.StreamContext != c.Context {
			place = bpf.GoHTTP2 // another version
		}
		add(place, c.Stream)
	}
	for _, s := range l.GRPCServers[:min(1, len(l.GRPCServers))] {
		p.StreamType = s.StreamType + l.Bias
		p.GrpcServer.Via, p.GrpcServer.Id, p.GrpcServer.Server, p.GrpcServer.Conn = s.StreamVia, s.StreamID, s.StreamServer, s.ServerConn
		add(bpf.GoGRPCCall, s.Stream)
	}
	for i, c := range l.GRPCClients {
		place := bpf.GoHTTP2
		if i == 0 && c.Streams == streams(c.Streams.Hash) && computed(c.Streams.Hash) {
			place = bpf.GoGRPCWrite
			p.GrpcClient = bpf.GoGRPCClient{Closure: c.GoAway, Framer: c.ClientFramer, Loopy: c.ClientLoopy, Streams: c.ActiveStreams,
				LoopyFramer: c.LoopyFramer, Via: c.StreamVia, Id: c.StreamID, Context: c.StreamCtx, Method: c.StreamMethod, Client: c.StreamClient, Keys: l.HashKeys}
		}
		add(place, c.Loopy)
	}
	for i, s := range l.HTTP2Servers[:min(len(l.HTTP2Servers), len(p.Http2Server))] {
		p.Http2Server[i] = http2Server(s)
		before := len(entries)
		add(bpf.GoHTTP2Read, s.Conn)
		for _, writer := range s.Writers {
			add(bpf.GoHTTP2Call, writer)
		}
		for j := range entries[before:] {
			entries[before+j].copy = uint32(i)
		}
	}
	for i, e := range entries[:min(len(entries), len(p.Entry))] {
		x := &p.Entry[i]
		x.Start, x.Pc, x.At, x.Slot, x.Place, x.Copy = e.Start+l.Bias, e.ReturnPC+l.Bias, e.Return, e.Slot, uint32(e.place), e.copy
	}
	return p, contexts
}

// http2Server is what the kernel side knows of it.
func http2Server(s golang.HTTP2Server) bpf.GoHTTP2Server {
	x := bpf.GoHTTP2Server{State: s.WriterState, Stream: s.StateStream, Id: s.StreamID, Context: s.StreamCtx, Conn: s.StreamConn,
		Socket: s.NetConn, Base: s.BaseCtx}
	if s.StreamsMap == streams(s.StreamsMap.Hash) {
		x.Streams = s.Streams
	}
	return x
}

// streams is the map of uint32 to pointers that the kernel side can search.
func streams(h golang.Hash) golang.Map {
	return golang.Map{Group: 136, Key: 8, Stride: 16, Elem: 16, Hash: h}
}

// computed says whether the kernel side can compute a map's hash.
func computed(h golang.Hash) bool { return h.Kind == golang.HashAESENC && h.Lane == 2 && h.Seed == 64 }

type goEntry struct {
	place bpf.GoPlace
	copy  uint32 // of the package
	golang.Entry
}

var contextKinds = map[golang.ContextKind]uint32{
	golang.ContextOther:  uint32(bpf.TareGoContextKindGO_CONTEXT_OTHER),
	golang.ContextValue:  uint32(bpf.TareGoContextKindGO_CONTEXT_VALUE),
	golang.ContextCancel: uint32(bpf.TareGoContextKindGO_CONTEXT_CANCEL),
}
