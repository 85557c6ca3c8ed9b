package spans

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// Bounds of what is remembered to decode headers of HTTP/2.
const (
	maxConnections  = 4096    // that are followed
	maxHeaderTable  = 1 << 16 // bytes of a table, which both ends agree on; 4096 is usual
	maxHeaderString = 1 << 14 // bytes
	maxHeaderBlock  = 1 << 14 // bytes, if it comes in pieces
)

// Flags and sizes of a HEADERS frame; RFC 9113 sections 4.1 and 6.2.
const (
	frameHeader   = 9
	frameType     = 3
	frameFlags    = 4
	frameNumber   = 5 // where the kernel side has put the block's number
	flagEnd       = 0x4
	flagPadded    = 0x8
	flagPriority  = 0x20
	priorityBytes = 5
)

// fields are those headers of a request and its response that spans tell of.
type fields struct {
	method, path, scheme, authority string
	content                         string // of the request
	status, grpcStatus              string
	kept                            []hpack.HeaderField // request headers that the user wants
	known                           bool                // the request's were decoded
}

// connections decode headers, which refer to those before on the same connection
// (RFC 7541): who has missed one cannot decode the next.
type connections map[uint64]*connection

type connection struct {
	request, response blocks
}

// blocks are the headers of one direction.
type blocks struct {
	decoder *hpack.Decoder
	next    uint32 // number of the next one
	begun   []byte // what there is of one that comes in pieces
	broken  bool   // one was missed, or cut off
	sink    func(hpack.HeaderField)
}

// of finds a connection; one that is new takes the place of all others if there
// are too many.
func (m connections) of(id uint64) *connection {
	c := m[id]
	if c == nil {
		if len(m) >= maxConnections {
			clear(m)
		}
		c = &connection{}
		m[id] = c
	}
	return c
}

// decode passes a block's fields on, as soon as all of it has come. It reports
// whether all of them are known.
func (d *blocks) decode(frame []byte, sink func(hpack.HeaderField)) bool {
	block, whole := d.whole(frame)
	if !whole || d.broken {
		return false
	}
	if d.decoder == nil {
		d.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) { d.sink(f) })
		d.decoder.SetAllowedMaxDynamicTableSize(maxHeaderTable)
		d.decoder.SetMaxStringLength(maxHeaderString)
	}
	d.sink = sink
	if _, err := d.decoder.Write(block); err != nil {
		d.broken = true
	} else if err := d.decoder.Close(); err != nil {
		d.broken = true
	}
	return !d.broken
}

// whole joins the pieces of a frame, and returns the block in it once it has all of
// them.
func (d *blocks) whole(frame []byte) (block []byte, whole bool) {
	if d.broken || len(frame) < frameHeader {
		d.broken = true
		return nil, false
	}
	size := int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2])
	flags := frame[frameFlags]
	number := binary.NativeEndian.Uint32(frame[frameNumber:])
	if frame[frameType] == bpf.FrameRest {
		d.broken = number+1 != d.next || len(d.begun) == 0
	} else {
		d.broken = number != d.next || len(d.begun) > 0 || flags&flagEnd == 0
		d.next++
	}
	block = frame[frameHeader:]
	if len(d.begun) > 0 || len(block) < size {
		d.begun = append(d.begun, block...)
		block = d.begun
	}
	d.broken = d.broken || len(block) > size || size > maxHeaderBlock
	if d.broken {
		d.begun = nil
	}
	if d.broken || len(block) < size {
		return nil, false
	}
	d.begun = d.begun[:0]
	if flags&flagPadded != 0 {
		if len(block) == 0 || int(block[0]) >= len(block) {
			d.broken = true
			return nil, false
		}
		block = block[1 : len(block)-int(block[0])]
	}
	if flags&flagPriority != 0 {
		if len(block) < priorityBytes {
			d.broken = true
			return nil, false
		}
		block = block[priorityBytes:]
	}
	return block, true
}

// headers takes a HEADERS frame of a stream, or a piece of it: of its request, or of its response.
func (b *Builder) headers(o *open, frame []byte, request bool) {
	c := b.http2.of(o.http2)
	h := &o.fields
	if request && len(frame) > frameHeader && frame[frameType] == bpf.FramePath { // headers before it are missing
		c.request.broken, c.response.broken = true, true
		h.method, h.path, h.content, h.known = "POST", string(frame[frameHeader:]), "application/grpc", true
		return
	}
	if !request {
		c.response.decode(frame, func(f hpack.HeaderField) {
			switch f.Name {
			case ":status":
				h.status = f.Value
			case "grpc-status":
				h.grpcStatus = f.Value
			}
		})
		return
	}
	known := c.request.decode(frame, func(f hpack.HeaderField) {
		switch f.Name {
		case ":method":
			h.method = f.Value
		case ":path":
			h.path = f.Value
		case ":scheme":
			h.scheme = f.Value
		case ":authority":
			h.authority = f.Value
		case "content-type":
			h.content = f.Value
		default:
			for _, name := range b.cfg.Headers {
				if f.Name == name {
					h.kept = append(h.kept, f)
				}
			}
		}
	})
	h.known = h.known || known
	if h.known || o.role != bpf.TareRoleTARE_SERVER {
		return
	}
	// The same request, where its client is traced here too.
	if client := b.open[binary.NativeEndian.Uint64(o.span.Parent[:])]; client != nil && client.role == bpf.TareRoleTARE_CLIENT {
		*h = client.fields
	}
}

// headersAlone takes headers of a stream without a span.
func (b *Builder) headersAlone(s *bpf.Start) {
	c := b.http2.of(s.Connection)
	d := &c.response
	if bpf.TareRole(s.Role) == bpf.TareRoleTARE_SERVER {
		d = &c.request
	}
	d.decode(s.Payload[:s.PayloadLen], func(hpack.HeaderField) {})
}

// grpcStatuses are the codes of gRPC by their numbers.
var grpcStatuses = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// Those that a server is to blame for; OpenTelemetry's conventions for gRPC.
var grpcServerErrors = map[string]bool{"UNKNOWN": true, "DEADLINE_EXCEEDED": true, "UNIMPLEMENTED": true, "INTERNAL": true,
	"UNAVAILABLE": true, "DATA_LOSS": true}

// describeStream names a span of HTTP/2, and of gRPC.
func (b *Builder) describeStream(o *open, server bool, address string, port uint16) {
	sp, h := &o.span, &o.fields
	switch {
	case !h.known || h.method == "":
		sp.Name = "http2"
	case strings.HasPrefix(h.content, "application/grpc"):
		method := printable([]byte(strings.TrimPrefix(h.path, "/")))
		sp.Name = method
		sp.Attrs = append(sp.Attrs, span.String("rpc.system.name", "grpc"), span.String("rpc.method", method))
		for _, f := range h.kept {
			sp.Attrs = append(sp.Attrs, span.String("rpc.request.metadata."+f.Name, printable([]byte(f.Value))))
		}
		n, err := strconv.Atoi(h.grpcStatus)
		if err != nil || n < 0 || n >= len(grpcStatuses) {
			break
		}
		status := grpcStatuses[n]
		sp.Attrs = append(sp.Attrs, span.String("rpc.response.status_code", status))
		if n != 0 && (!server || grpcServerErrors[status]) {
			fail(sp, status)
		}
	default:
		f := facts{operation: "HTTP", target: httpPath([]byte(h.path), &b.texts), version: "2"}
		if method, ok := known(httpMethods, []byte(h.method)); ok {
			f.operation = method
		}
		if n, err := strconv.Atoi(h.status); err == nil && n >= 100 && n <= 999 {
			f.status = n
		}
		describeHTTP(sp, f, server, fullURL(&b.texts, address, port, f.target))
		for _, f := range h.kept {
			sp.Attrs = append(sp.Attrs, span.String("http.request.header."+f.Name, printable([]byte(f.Value))))
		}
	}
}
