package golang

import (
	"debug/dwarf"
	"debug/elf"
	"strings"
	"testing"
)

// truth is what an executable that is not stripped says by other means: offsets
// of fields by DWARF, functions by the symbol table.
type truth struct {
	t       testing.TB
	fields  map[string]int64 // "net/http.conn.cancelCtx"
	symbols map[string]Range
}

func truthOf(t testing.TB, path string) *truth {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	tr := &truth{t, map[string]int64{}, map[string]Range{}}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			tr.symbols[s.Name] = Range{s.Value, s.Value + s.Size}
		}
	}
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	in := ""
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case dwarf.TagStructType:
			in = name
		case dwarf.TagMember:
			if off, ok := e.Val(dwarf.AttrDataMemberLoc).(int64); ok && in != "" {
				tr.fields[in+"."+name] = off
			}
		case dwarf.TagCompileUnit, dwarf.TagBaseType, dwarf.TagTypedef:
		default:
			if e.Tag != 0 && e.Tag != dwarf.TagMember {
				r.SkipChildren()
			}
		}
	}
	return tr
}

// offset holds the sum of fields' offsets against a derived one.
func (tr *truth) offset(got uint32, fields ...string) {
	tr.t.Helper()
	sum := int64(0)
	for _, f := range fields {
		off, ok := tr.fields[f]
		if !ok {
			tr.t.Errorf("DWARF has no %s", f)
		}
		sum += off
	}
	if int64(got) != sum {
		tr.t.Errorf("%v is at %d, derived %d", fields, sum, got)
	}
}

// function holds a range against the symbol's; the table of functions counts the
// padding behind one to it.
func (tr *truth) function(got Range, name string) {
	tr.t.Helper()
	if want, ok := tr.symbols[name]; !ok || got.Low != want.Low || got.High < want.High || got.High > want.High+64 {
		tr.t.Errorf("%s is %x, derived %x", name, want, got)
	}
}

// check holds all of a layout against the truth.
func (tr *truth) check(l *Layout) {
	tr.offset(l.Goroutine.StackHi, "runtime.g.stack", "runtime.stack.hi")
	tr.offset(l.Goroutine.ID, "runtime.g.goid")
	tr.offset(l.Goroutine.StartPC, "runtime.g.startpc")
	tr.offset(l.Goroutine.Parent, "runtime.g.parentGoid")
	tr.offset(l.Goroutine.Status, "runtime.g.atomicstatus")
	tr.offset(l.CancelErr, "context.cancelCtx.err")
	tr.offset(l.ValueKey, "context.valueCtx.key")
	tr.offset(l.ValueVal, "context.valueCtx.val")
	buffer := func(b Buffer) {
		tr.offset(b.Bytes, "bufio.Writer.buf")
		tr.offset(b.Used, "bufio.Writer.n")
	}
	for _, s := range l.HTTP1Servers {
		tr.function(s.Serve, "net/http.(*conn).serve")
		tr.offset(s.Cancel, "net/http.conn.cancelCtx")
	}
	for _, c := range l.HTTP1Clients {
		tr.function(c.WriteLoop, "net/http.(*persistConn).writeLoop")
		if c.Via < 0 {
			tr.offset(c.Context, "net/http.transportRequest.ctx")
		} else {
			tr.offset(uint32(c.Via), "net/http.transportRequest.Request")
			tr.offset(c.Context, "net/http.Request.ctx")
		}
		tr.offset(c.Writer, "net/http.persistConn.bw")
		buffer(c.Buffer)
	}
	prefix := func(pkg string) string { // of the names in a package
		if pkg == "net/http" {
			return pkg + ".http2"
		}
		return pkg + "."
	}
	method := func(pkg, receiver, name string) string {
		p := prefix(pkg)
		return pkg + ".(*" + strings.TrimPrefix(p, pkg+".") + receiver + ")." + name
	}
	for _, s := range l.HTTP2Servers {
		p := prefix(s.Package)
		tr.function(s.ReadFrames, method(s.Package, "serverConn", "readFrames"))
		tr.function(s.RunHandler, method(s.Package, "serverConn", "runHandler"))
		tr.offset(s.BaseCtx, p+"serverConn.baseCtx")
		tr.offset(s.NetConn, p+"serverConn.conn")
		tr.offset(s.WriterState, p+"responseWriter.rws")
		tr.offset(s.StateStream, p+"responseWriterState.stream")
		tr.offset(s.StreamID, p+"stream.id")
		tr.offset(s.StreamCtx, p+"stream.ctx")
		tr.offset(s.StreamConn, p+"stream.sc")
		tr.offset(s.Streams, p+"serverConn.streams")
	}
	for _, c := range l.HTTP2Clients {
		p := prefix(c.Package)
		tr.function(c.DoRequest, method(c.Package, "clientStream", "doRequest"))
		tr.offset(c.ID, p+"clientStream.ID")
		tr.offset(c.Context, p+"clientStream.ctx")
		tr.offset(c.Conn, p+"clientStream.cc")
		tr.offset(c.Writer, p+"ClientConn.bw")
		buffer(c.Buffer)
	}
	inStream := func(pkg, of string, via int32, off uint32, field string) {
		if _, ok := tr.fields[pkg+"."+of+"."+field]; ok {
			tr.offset(off, pkg+"."+of+"."+field)
			return
		}
		if via >= 0 {
			tr.offset(uint32(via), pkg+"."+of+".Stream")
			tr.offset(off, pkg+".Stream."+field)
			return
		}
		tr.offset(off, pkg+"."+of+".Stream", pkg+".Stream."+field)
	}
	serverStream, clientStream := "ServerStream", "ClientStream"
	for _, s := range l.GRPCServers {
		if _, ok := tr.fields[s.Package+".ServerStream.st"]; !ok {
			serverStream, clientStream = "Stream", "Stream"
		}
		tr.function(s.HandleStreams, s.Package+".(*http2Server).HandleStreams")
		tr.function(s.HandleStream, strings.TrimSuffix(s.Package, "/internal/transport")+".(*Server).handleStream")
		inStream(s.Package, serverStream, s.StreamVia, s.StreamID, "id")
		tr.offset(s.StreamServer, s.Package+"."+serverStream+".st")
		tr.offset(s.ServerConn, s.Package+".http2Server.conn")
	}
	for _, c := range l.GRPCClients {
		tr.function(c.Run, c.Package+".(*loopyWriter).run")
		tr.offset(c.ClientFramer, c.Package+".http2Client.framer")
		tr.offset(c.LoopyFramer, c.Package+".loopyWriter.framer")
		tr.offset(c.ClientLoopy, c.Package+".http2Client.loopy")
		tr.offset(c.ActiveStreams, c.Package+".http2Client.activeStreams")
		tr.offset(c.FramerWriter, c.Package+".framer.writer")
		inStream(c.Package, clientStream, c.StreamVia, c.StreamID, "id")
		inStream(c.Package, clientStream, c.StreamVia, c.StreamCtx, "ctx")
		tr.offset(c.StreamClient, c.Package+"."+clientStream+".ct")
	}
}
