package golang

import (
	"slices"
	"strings"
)

// What is looked for, each once for the whole program.
const (
	fnServe         = "net/http.(*conn).serve"
	fnWriteLoop     = "net/http.(*persistConn).writeLoop"
	fnHandleStreams = "grpc/internal/transport.(*http2Server).HandleStreams"
	fnHandleStream  = "grpc.(*Server).handleStream"
	fnLoopy         = "grpc/internal/transport.(*loopyWriter).run"
	pkgTransport    = "grpc/internal/transport"
)

// HTTP/2 is in net/http with a prefix to its names (until Go 1.26), and in packages
// of its own: golang.org/x/net/http2, and net/http/internal/http2 since Go 1.27.
type http2Names struct{ pkg, types, prefix string }

var http2Variants = []http2Names{{"net/http", "http", "http2"}, {"http2", "http2", ""}}

func (n http2Names) function(receiver, name string) string {
	return n.pkg + ".(*" + n.prefix + receiver + ")." + name
}

func (n http2Names) typ(name string) string { return "*" + n.types + "." + n.prefix + name }

var wantedFunctions = func() []string {
	list := []string{fnServe, fnWriteLoop, fnHandleStreams, fnHandleStream, fnLoopy}
	for _, v := range http2Variants {
		list = append(list, v.function("serverConn", "readFrames"), v.function("serverConn", "runHandler"),
			v.function("clientStream", "doRequest"))
	}
	return list
}()

var wantedTypes = func() []string {
	list := []string{
		"*runtime.g", "*net.TCPConn", "*context.cancelCtx", "*context.valueCtx",
		"*http.conn", "*http.contextKey", "*http.Request", "*http.transportRequest", "*http.persistConn",
		"*transport.http2Server", "*transport.http2Client", "*transport.ServerStream", "*transport.ClientStream",
		"*transport.Stream", "*transport.loopyWriter",
	}
	for _, v := range http2Variants {
		list = append(list, v.typ("serverConn"), v.typ("clientStream"), v.typ("responseWriter"))
	}
	return list
}()

// deriver finds the parts of a layout.
type deriver struct {
	m         *module
	types     map[string][]typ // pointers, by their names
	functions map[string][]function
	layout    *Layout
	slots     []slotOf
}

// derive makes the layout of a program. A mechanism that is refused leaves
// nothing of itself in it.
func derive(m *module) *Layout {
	d := deriver{m: m, types: m.lookup(wantedTypes), functions: m.findFunctions(wantedFunctions),
		layout: &Layout{Arch: m.arch.name, module: m.addr, table: m.table, entry: m.elf.Entry, pie: m.relocated()}}
	l := d.layout
	l.Functions = Functions{Text: m.text, Table: m.ftab.addr, Len: uint32(m.nfunc), PC: m.pctab.addr, Maps: m.gofunc}
	l.Refused[Goroutines] = d.goroutine()
	l.TCP = d.tcp()
	l.Refused[Contexts] = d.contexts()
	servers1 := all(&d, HTTP1Servers, d.functions[fnServe], d.http1Server)
	clients1 := all(&d, HTTP1Clients, d.functions[fnWriteLoop], d.http1Client)
	var servers2 []*HTTP2Server
	var clients2 []*HTTP2Client
	for _, v := range http2Variants {
		servers2 = append(servers2, all(&d, HTTP2Servers, d.functions[v.function("serverConn", "readFrames")],
			func(f function) (*HTTP2Server, Refusal) { return d.http2Server(v, f) })...)
		clients2 = append(clients2, all(&d, HTTP2Clients, d.functions[v.function("clientStream", "doRequest")],
			func(f function) (*HTTP2Client, Refusal) { return d.http2Client(v, f) })...)
	}
	servers := all(&d, GRPCServers, d.functions[fnHandleStreams], d.grpcServer)
	clients := all(&d, GRPCClients, d.functions[fnLoopy], d.grpcClient)
	m.setEntries(d.slots)
	l.HTTP1Servers, l.HTTP1Clients = values(servers1), values(clients1)
	l.HTTP2Servers, l.HTTP2Clients = values(servers2), values(clients2)
	l.GRPCServers, l.GRPCClients = values(servers), values(clients)
	d.refuseAbsent(HTTP1Servers, len(servers1), "*http.conn", "net/http")
	d.refuseAbsent(HTTP1Clients, len(clients1), "*http.persistConn", "net/http")
	d.refuseAbsent(GRPCServers, len(servers), "*transport.http2Server", pkgTransport)
	d.refuseAbsent(GRPCClients, len(clients), "*transport.http2Client", pkgTransport)
	for _, v := range http2Variants {
		d.refuseAbsent(HTTP2Servers, len(servers2), v.typ("serverConn"), v.pkg)
		d.refuseAbsent(HTTP2Clients, len(clients2), v.typ("clientStream"), v.pkg)
	}
	return l
}

// all derives a mechanism for each copy of it.
func all[T any](d *deriver, k Mechanism, list []function, one func(function) (*T, Refusal)) (found []*T) {
	for _, f := range list {
		before := len(d.slots)
		x, r := one(f)
		if r.Reason != Fits {
			d.slots = d.slots[:before]
			d.layout.Refused[k] = r
			continue
		}
		found = append(found, x)
	}
	return found
}

func values[T any](list []*T) []T {
	var out []T
	for _, x := range list {
		out = append(out, *x)
	}
	return out
}

// refuseAbsent gives a mechanism that was not found its reason: nothing of it is
// in the program, or its types are, and its function is missing.
func (d *deriver) refuseAbsent(k Mechanism, found int, name, pkg string) {
	r := &d.layout.Refused[k]
	switch {
	case found > 0:
		*r = Refusal{}
	case r.Reason != Fits && r.Reason != Absent:
	case len(d.structs(name, pkg)) > 0:
		*r = Refusal{NoFunction, name}
	default:
		*r = Refusal{Absent, ""}
	}
}

// structs are the types that pointers of a name point to, in packages under one.
func (d *deriver) structs(pointer, pkg string) (found []typ) {
	for _, p := range d.types[pointer] {
		if s, ok := d.m.elem(p); ok && s.kind == kindStruct && under(d.m.pkg(s), pkg) {
			found = append(found, s)
		}
	}
	return found
}

// check derives offsets until one is refused.
type check struct {
	d       *deriver
	refusal Refusal
}

func (d *deriver) fork() *check { return &check{d: d} }

func (c *check) refused() bool { return c.refusal.Reason != Fits }

func (c *check) refuse(r Reason, what string) {
	if !c.refused() {
		c.refusal = refuse(r, what)
	}
}

// pointer is the type of pointers with this name to a struct of exactly this
// package, and the struct.
func (c *check) pointer(name, pkg string) (pointer, to typ) {
	for _, p := range c.d.types[name] {
		if s, ok := c.d.m.elem(p); ok && s.kind == kindStruct && c.d.m.pkg(s) == pkg {
			return p, s
		}
	}
	c.refuse(NoType, pkg+" "+name)
	return typ{}, typ{}
}

// field finds one that is of one of these kinds.
func (c *check) field(t typ, name string, kinds ...byte) field {
	if c.refused() {
		return field{}
	}
	f, ok := c.d.m.field(t, name)
	if !ok || !slices.Contains(kinds, f.typ.kind) {
		c.refuse(NoField, c.d.m.name(t)+"."+name)
	}
	return f
}

func (c *check) off(t typ, name string, kinds ...byte) uint32 {
	return uint32(c.field(t, name, kinds...).off)
}

// only is the offset of the only field of a kind.
func (c *check) only(t typ, kind byte) uint32 {
	var list []field
	for f := range c.d.m.fields(t) {
		if f.typ.kind == kind {
			list = append(list, f)
		}
	}
	if len(list) != 1 {
		c.refuse(NoField, c.d.m.name(t))
		return 0
	}
	return uint32(list[0].off)
}

// behind is the type that a field points to.
func (c *check) behind(f field) typ {
	t, ok := c.d.m.elem(f.typ)
	if !ok {
		c.refuse(NoType, f.name)
	}
	return t
}

// context is the offset of a field that is a context.Context.
func (c *check) context(t typ, name string) uint32 {
	f := c.field(t, name, kindInterface)
	if !c.refused() && c.d.m.name(f.typ) != contextInterface {
		c.refuse(NoField, c.d.m.name(t)+"."+name)
	}
	return uint32(f.off)
}

// argument derives the slot of a function's n-th argument.
func (c *check) argument(slot *Slot, f function, n int) {
	if c.refused() {
		return
	}
	s, r := c.d.m.argumentSlot(f, n)
	if r != Fits {
		c.refuse(r, f.name)
		return
	}
	*slot = s
	c.d.slots = append(c.d.slots, slotOf{f, slot})
}

// function finds one in the package.
func (c *check) function(suffix, pkg string) function {
	for _, f := range c.d.functions[suffix] {
		if f.pkg == pkg {
			return f
		}
	}
	c.refuse(NoFunction, pkg+" "+suffix)
	return function{}
}

// buffer is that of a bufio.Writer, to which a field points.
func (c *check) buffer(f field) Buffer {
	t := c.behind(f)
	return Buffer{Bytes: c.off(t, "buf", kindSlice), Used: c.off(t, "n", kindInt)}
}

const kindInt = 2

func (d *deriver) goroutine() Refusal {
	c := d.fork()
	_, g := c.pointer("*runtime.g", "runtime")
	stack := c.field(g, "stack", kindStruct)
	d.layout.Goroutine = Goroutine{
		StackHi: uint32(stack.off) + c.off(stack.typ, "hi", kindUintptr),
		ID:      c.off(g, "goid", kindUint64),
		StartPC: c.off(g, "startpc", kindUintptr),
		Status:  c.off(g, "atomicstatus", kindStruct),
		Parent:  c.off(g, "parentGoid", kindUint64),
	}
	return c.refusal
}

const kindUintptr = 12

func (d *deriver) tcp() TCPConn {
	c := d.fork()
	pointer, tcp := c.pointer("*net.TCPConn", "net")
	conn := c.field(tcp, "conn", kindStruct)
	fd := c.field(conn.typ, "fd", kindPointer)
	poll := c.field(c.behind(fd), "pfd", kindStruct)
	t := TCPConn{Type: pointer.addr, NetFD: uint32(conn.off + fd.off), FD: uint32(poll.off) + c.off(poll.typ, "Sysfd", kindInt)}
	if c.refused() {
		return TCPConn{}
	}
	return t
}

func (d *deriver) http1Server(serve function) (*HTTP1Server, Refusal) {
	c := d.fork()
	_, conn := c.pointer("*http.conn", serve.pkg)
	key, _ := c.pointer("*http.contextKey", serve.pkg)
	s := &HTTP1Server{Package: serve.pkg, Serve: serve.Range, ContextKey: key.addr, Cancel: c.off(conn, "cancelCtx", kindFunc)}
	c.argument(&s.Conn, serve, 0)
	return s, c.refusal
}

func (d *deriver) http1Client(loop function) (*HTTP1Client, Refusal) {
	c := d.fork()
	_, pc := c.pointer("*http.persistConn", loop.pkg)
	write := c.behind(c.field(pc, "writech", kindChan))
	req := c.field(write, "req", kindPointer)
	tr := c.behind(req)
	x := &HTTP1Client{Package: loop.pkg, WriteLoop: loop.Range, Via: -1}
	if _, ok := d.m.field(tr, "ctx"); ok {
		x.Context = c.context(tr, "ctx")
	} else { // before Go 1.23
		r := c.field(tr, "Request", kindPointer)
		x.Via, x.Context = int32(r.off), c.context(c.behind(r), "ctx")
	}
	bw := c.field(pc, "bw", kindPointer)
	x.Writer, x.Buffer = uint32(bw.off), c.buffer(bw)
	c.argument(&x.Conn, loop, 0)
	if c.refused() {
		return nil, c.refusal
	}
	slot, r := d.m.objectSlot(loop, write, req.off)
	if r != Fits {
		return nil, refuse(r, loop.name)
	}
	x.Request = slot
	d.slots = append(d.slots, slotOf{loop, &x.Request})
	return x, Refusal{}
}

func (d *deriver) http2Server(v http2Names, read function) (*HTTP2Server, Refusal) {
	c := d.fork()
	_, conn := c.pointer(v.typ("serverConn"), read.pkg)
	_, writer := c.pointer(v.typ("responseWriter"), read.pkg)
	run := c.function(v.function("serverConn", "runHandler"), read.pkg)
	state := c.field(writer, "rws", kindPointer)
	stream := c.field(c.behind(state), "stream", kindPointer)
	st := c.behind(stream)
	streams := c.field(conn, "streams", kindMap)
	x := &HTTP2Server{
		Package: read.pkg, ReadFrames: read.Range, RunHandler: run.Range,
		BaseCtx: c.context(conn, "baseCtx"), NetConn: c.off(conn, "conn", kindInterface), WriterState: uint32(state.off), StateStream: uint32(stream.off),
		StreamID: c.off(st, "id", kindUint32), StreamCtx: c.context(st, "ctx"), StreamConn: c.off(st, "sc", kindPointer),
		Streams: uint32(streams.off),
	}
	c.argument(&x.Conn, read, 0)
	if !c.refused() {
		if x.Writers = d.m.closureSlots(run); len(x.Writers) == 0 {
			return nil, refuse(NoStackObject, run.name)
		}
		for i := range x.Writers {
			d.slots = append(d.slots, slotOf{run, &x.Writers[i]})
		}
		x.StreamsMap, x.NoMap = d.m.mapOf(streams.typ)
		d.setHash(x.StreamsMap)
	}
	return x, c.refusal
}

func (d *deriver) setHash(m Map) {
	if m.Hash.Kind != NoHash {
		d.layout.hash = m.Hash
	}
}

func (d *deriver) http2Client(v http2Names, do function) (*HTTP2Client, Refusal) {
	c := d.fork()
	_, cs := c.pointer(v.typ("clientStream"), do.pkg)
	cc := c.field(cs, "cc", kindPointer)
	bw := c.field(c.behind(cc), "bw", kindPointer)
	x := &HTTP2Client{Package: do.pkg, DoRequest: do.Range, ID: c.off(cs, "ID", kindUint32), Context: c.context(cs, "ctx"),
		Conn: uint32(cc.off), Writer: uint32(bw.off), Buffer: c.buffer(bw)}
	c.argument(&x.Stream, do, 0)
	return x, c.refusal
}

// inStream finds a field of a stream: in itself, or in the Stream that it embeds
// by value, or, before grpc-go 1.74, by pointer.
func (c *check) inStream(t typ, name string, kind byte) (via int32, off uint32) {
	if _, ok := c.d.m.field(t, name); ok {
		return -1, c.off(t, name, kind)
	}
	s := c.field(t, "Stream", kindStruct, kindPointer)
	if s.typ.kind == kindPointer {
		return int32(s.off), c.off(c.behind(s), name, kind)
	}
	return -1, uint32(s.off) + c.off(s.typ, name, kind)
}

func (d *deriver) grpcServer(handle function) (*GRPCServer, Refusal) {
	c := d.fork()
	_, server := c.pointer("*transport.http2Server", handle.pkg)
	name := "*transport.ServerStream"
	if len(d.structs(name, handle.pkg)) == 0 {
		name = "*transport.Stream"
	}
	pointer, stream := c.pointer(name, handle.pkg)
	f := c.function(fnHandleStream, strings.TrimSuffix(handle.pkg, "/internal/transport"))
	x := &GRPCServer{Package: handle.pkg, HandleStreams: handle.Range, HandleStream: f.Range, StreamType: pointer.addr,
		StreamServer: c.off(stream, "st", kindInterface), ServerConn: c.off(server, "conn", kindInterface)}
	x.StreamVia, x.StreamID = c.inStream(stream, "id", kindUint32)
	c.argument(&x.Transport, handle, 0)
	c.argument(&x.Stream, f, 2) // after the receiver and the transport
	return x, c.refusal
}

func (d *deriver) grpcClient(run function) (*GRPCClient, Refusal) {
	c := d.fork()
	_, client := c.pointer("*transport.http2Client", run.pkg)
	_, loopy := c.pointer("*transport.loopyWriter", run.pkg)
	streams := c.field(client, "activeStreams", kindMap)
	if c.refused() {
		return nil, c.refusal
	}
	framer := c.field(loopy, "framer", kindPointer)
	writer := c.field(c.behind(framer), "writer", kindPointer)
	x := &GRPCClient{
		Package: run.pkg, Run: run.Range, GoAway: c.only(loopy, kindFunc),
		ClientFramer: c.off(client, "framer", kindPointer), LoopyFramer: uint32(framer.off), ActiveStreams: uint32(streams.off),
		ClientLoopy: c.off(client, "loopy", kindPointer), FramerWriter: uint32(writer.off),
	}
	bw := c.behind(writer)
	if _, ok := d.m.field(bw, "bufHandle"); ok {
		x.Buffer = Buffer{Bytes: c.off(bw, "bufHandle", kindPointer), Handle: true}
	} else {
		x.Buffer = Buffer{Bytes: c.off(bw, "buf", kindSlice, kindPointer)}
		x.Buffer.Handle = c.field(bw, "buf", kindSlice, kindPointer).typ.kind == kindPointer
	}
	x.Buffer.Used = c.off(bw, "offset", kindInt)
	stream, _ := d.m.elem(streams.typ)
	stream = c.behind(field{name: "activeStreams", typ: stream})
	x.StreamVia, x.StreamID = c.inStream(stream, "id", kindUint32)
	_, x.StreamCtx = c.inStream(stream, "ctx", kindInterface)
	_, x.StreamMethod = c.inStream(stream, "method", kindString)
	x.StreamClient = c.off(stream, "ct", kindPointer, kindInterface)
	c.argument(&x.Loopy, run, 0)
	if c.refused() {
		return nil, c.refusal
	}
	var r Reason
	if x.Streams, r = d.m.mapOf(streams.typ); r != Fits {
		return nil, Refusal{r, "activeStreams"}
	}
	d.setHash(x.Streams)
	return x, Refusal{}
}
