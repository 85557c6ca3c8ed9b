package spans

import (
	"encoding/binary"
	"slices"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp"
)

// prefixKey is what the first attributes of a span say: where its connection leads, and of a
// request of HTTP/1 what few values suffice for.
type prefixKey struct {
	local, remote         [16]byte // a client's local address is no part of its attributes
	localPort, remotePort uint16   // likewise; nor is a server's remote port, which all its clients have of their own
	status                uint16   // of HTTP, 0: not known
	family                uint8
	server                bool
	method                uint8 // of methods; 0: no request of HTTP/1
	old                   bool  // HTTP/1.0
}

func (k *prefixKey) hash() uint32 {
	at := func(b *[16]byte) uint32 {
		return binary.NativeEndian.Uint32(b[:4]) ^ binary.NativeEndian.Uint32(b[12:])
	}
	h := at(&k.local)*31 ^ at(&k.remote) ^ uint32(k.localPort)<<16 ^ uint32(k.remotePort) ^ uint32(k.status)<<8 ^ uint32(k.method)<<4
	return h * 0x9e3779b1 >> (32 - prefixBits) // Knuth, The Art of Computer Programming 3, 6.4
}

const prefixBits = 8

// prefixes are the first attributes of spans, as they are encoded. One of each hash is kept: that
// of which two spans came without another of that hash between them.
type prefixes [1 << prefixBits]struct {
	key, last prefixKey
	prefix    *span.Prefix
}

// begin appends the first attributes to those of a span, which has none yet.
func (p *prefixes) begin(sp *span.Span, k *prefixKey, names *addressNames) {
	e := &p[k.hash()]
	if e.prefix != nil && e.key == *k {
		sp.Attrs, sp.Prefix = append(sp.Attrs, e.prefix.Attrs...), e.prefix
		return
	}
	sp.Attrs = k.append(sp.Attrs, names)
	if e.last == *k {
		e.key, e.prefix = *k, otlp.NewPrefix(slices.Clone(sp.Attrs))
	}
	e.last = *k
}

func (k *prefixKey) append(attrs []span.Attr, names *addressNames) []span.Attr {
	peer := names.text(k.remote, k.family)
	address, port := peer, k.remotePort
	if k.server {
		address, port = names.text(k.local, k.family), k.localPort
	}
	attrs = append(attrs, span.String("server.address", address), span.Int("server.port", int64(port)), span.String("network.peer.address", peer))
	if !k.server {
		attrs = append(attrs, span.Int("network.peer.port", int64(k.remotePort)))
	}
	if k.method == 0 {
		return attrs
	}
	version := "1.1"
	if k.old {
		version = "1.0"
	}
	return appendHTTP(attrs, methods[k.method], version, int(k.status), k.server)
}

// appendHTTP appends those attributes of a request of HTTP that have few values.
func appendHTTP(attrs []span.Attr, method, version string, status int, server bool) []span.Attr {
	attrs = append(attrs, span.String("http.request.method", method), span.String("network.protocol.version", version))
	if server {
		attrs = append(attrs, span.String("url.scheme", "http"))
	}
	if status != 0 {
		attrs = append(attrs, span.Int("http.response.status_code", int64(status)))
	}
	return attrs
}
