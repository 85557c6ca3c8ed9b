package spans

import (
	"bytes"
	"net/url"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// path takes where the connection of a span over a unix socket leads.
func (b *Builder) path(p *bpf.Path) {
	o := b.open.find(p.SpanId)
	if o == nil {
		b.cfg.Lost(LostOrphan, 1)
		return
	}
	o.path = unixName(p.Path[:p.Len])
}

// unixName is a socket's name as people write it: that of an abstract one begins with @
// in place of a zero.
func unixName(name []byte) string {
	if len(name) > 1 && name[0] == 0 {
		return "@" + printable(name[1:])
	}
	return printable(bytes.TrimRight(name, "\x00"))
}

// describeUnix says where a span's connection leads, of both ends. A client has no address.
func describeUnix(sp *span.Span, o *open) {
	texts(sp, "network.transport", "unix", "server.address", o.path)
	if o.role == bpf.TareRoleTARE_CLIENT {
		texts(sp, "network.peer.address", o.path)
	}
}

// unixURL is url.full of a request to a unix socket, as libraries for that write it.
func unixURL(socket, path string) string {
	return "http+unix://" + url.PathEscape(socket) + path
}
