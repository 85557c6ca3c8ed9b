package spans

import (
	"bytes"
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
	hpackTable      = 4096    // octets of a table, without further agreement
	hpackEntry      = 32      // octets of a field of it, at least
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
	known                           bool                // the request's were decoded, as far as its name takes
}

// connections decode headers, which refer to those before on the same connection
// (RFC 7541). Who has missed one knows those that are spelled out, and those that
// refer to such that came later.
type connections map[uint64]*connection

type connection struct {
	request, response blocks
}

// blocks are the headers of one direction.
type blocks struct {
	decoder *hpack.Decoder // nil: none yet, or what it would refer to is not known
	next    uint32         // number of the next one
	begun   []byte         // what there is of one that comes in pieces
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

// unknownFields fill a table with fields that have no name and no value: RFC 7541
// section 6.2.1.
var unknownFields = bytes.Repeat([]byte{0x40, 0, 0}, hpackTable/hpackEntry)

// open makes a decoder. That of a connection's first headers has an empty table. Any
// other has one full of fields without a name, in the places of those that were missed.
// As it has more of them than any table of that size, no place is another's; a field
// that is added takes the place that it has in the true table.
func (d *blocks) open(first bool) {
	d.decoder = hpack.NewDecoder(hpackTable, func(f hpack.HeaderField) { d.sink(f) })
	d.decoder.SetAllowedMaxDynamicTableSize(maxHeaderTable)
	d.decoder.SetMaxStringLength(maxHeaderString)
	if !first {
		d.sink = func(hpack.HeaderField) {}
		_, _ = d.decoder.Write(unknownFields)
	}
}

// decode passes a block's fields on, as soon as all of it has come. It reports
// whether all of them are known; those that are not are not passed on.
func (d *blocks) decode(frame []byte, sink func(hpack.HeaderField)) (known bool) {
	block, whole := d.whole(frame)
	if !whole {
		return false
	}
	if d.decoder == nil {
		d.open(d.next == 1)
	}
	known = true
	d.sink = func(f hpack.HeaderField) {
		if f.Name == "" {
			known = false
			return
		}
		sink(f)
	}
	_, err := d.decoder.Write(block)
	if err == nil {
		err = d.decoder.Close()
	}
	if err != nil {
		d.decoder = nil
	}
	return known && err == nil
}

// missed forgets what headers refer to, and a block that has begun.
func (d *blocks) missed() {
	d.decoder = nil
	d.begun = d.begun[:0]
}

// whole joins the pieces of a frame, and returns the block in it once it has all of
// them.
func (d *blocks) whole(frame []byte) (block []byte, whole bool) {
	if len(frame) < frameHeader {
		d.missed()
		return nil, false
	}
	size := int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2])
	flags := frame[frameFlags]
	number := binary.NativeEndian.Uint32(frame[frameNumber:])
	if frame[frameType] == bpf.FrameRest {
		if number+1 != d.next || len(d.begun) == 0 {
			d.missed()
			return nil, false
		}
	} else {
		if number != d.next || len(d.begun) > 0 {
			d.missed()
		}
		d.next = number + 1
	}
	block = frame[frameHeader:]
	if len(d.begun) > 0 || len(block) < size {
		d.begun = append(d.begun, block...)
		block = d.begun
	}
	if len(block) > size || size > maxHeaderBlock {
		d.missed()
		return nil, false
	}
	if len(block) < size {
		return nil, false
	}
	d.begun = d.begun[:0]
	block, ok := fragment(block, flags)
	if !ok || flags&flagEnd == 0 { // it goes on in a frame that is not told
		d.missed()
		return nil, false
	}
	return block, true
}

// fragment is what a HEADERS frame has of the block of headers: RFC 9113 section 6.2.
func fragment(payload []byte, flags byte) (block []byte, ok bool) {
	block = payload
	if flags&flagPadded != 0 {
		if len(block) == 0 || int(block[0]) >= len(block) {
			return nil, false
		}
		block = block[1 : len(block)-int(block[0])]
	}
	if flags&flagPriority != 0 {
		if len(block) < priorityBytes {
			return nil, false
		}
		block = block[priorityBytes:]
	}
	return block, true
}

// headers takes a HEADERS frame of a stream, or a piece of it: of its request, or of its response.
func (b *Builder) headers(o *open, frame []byte, request bool) {
	c := b.http2.of(o.http2)
	if o.fields == nil {
		o.fields = &fields{}
	}
	h := o.fields
	if request && len(frame) > frameHeader && frame[frameType] == bpf.FramePath { // headers before it are missing
		c.request.missed()
		c.response.missed()
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
	h.known = h.known || known || h.named()
	if h.known || o.role != bpf.TareRoleTARE_SERVER {
		return
	}
	// The same request, where its client is traced here too.
	if client := b.open.find(binary.NativeEndian.Uint64(o.span.Parent[:])); client != nil && client.role == bpf.TareRoleTARE_CLIENT && client.fields != nil {
		*h = *client.fields
	}
}

// named tells whether what is known of a request's headers is enough for its name: a
// call of gRPC is a POST, and its content's type tells it apart.
func (h *fields) named() bool {
	return h.method != "" && h.path != "" && (h.method != "POST" || h.content != "")
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
	sp, h := &o.span, o.fields
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
		if i := methodOf(h.method); i != otherMethod {
			f.operation = methods[i]
		}
		if n, err := strconv.Atoi(h.status); err == nil && n >= 100 && n <= 999 {
			f.status = n
		}
		sp.Attrs = appendHTTP(sp.Attrs, f.operation, f.version, f.status, server)
		describeHTTP(sp, &f, server, fullURL(&b.texts, address, port, f.target))
		for _, f := range h.kept {
			sp.Attrs = append(sp.Attrs, span.String("http.request.header."+f.Name, printable([]byte(f.Value))))
		}
	}
}
