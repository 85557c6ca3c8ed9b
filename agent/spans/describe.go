package spans

import (
	"bytes"
	"cmp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// describe names a span and gives it attributes by OpenTelemetry's semantic
// conventions: HTTP 1.23 (stable), database (stable).
func (b *Builder) describe(o *open, reason bpf.TareEndReason, errno uint16) {
	sp := &o.span
	f := identify(o.request[:o.requestN], o.response[:o.responseN])
	remote := b.names.text(o.remote, o.family)
	server := o.role == bpf.TareRoleTARE_SERVER
	address, port := remote, o.remotePort
	if server {
		address, port = b.names.text(o.local, o.family), o.localPort
	}

	switch {
	case o.has(bpf.TareStartFlagsTARE_F_HTTP2):
		b.describeStream(o, server, address, port)
		f.protocol = protocolHTTP
	case f.protocol == protocolHTTP:
		describeHTTP(sp, f, server, address, port)
	}
	switch f.protocol {
	case protocolHTTP:
	case protocolRedis, protocolMemcached, protocolPostgres:
		sp.Attrs = append(sp.Attrs, span.String("db.system.name", string(f.protocol)))
		if f.postgres != nil {
			b.session(o, &f)
		}
		sp.Name = cmp.Or(f.summary, f.operation, string(f.protocol))
		for _, a := range []struct{ key, value string }{
			{"db.operation.name", f.operation}, {"db.collection.name", f.collection},
			{"db.query.summary", f.summary}, {"db.query.text", f.target},
		} {
			if a.value != "" {
				sp.Attrs = append(sp.Attrs, span.String(a.key, a.value))
			}
		}
		if f.failure != "" {
			if f.failure != otherFailure {
				sp.Attrs = append(sp.Attrs, span.String("db.response.status_code", f.failure))
			}
			fail(sp, f.failure)
		}
	default:
		sp.Name = string(f.protocol)
	}
	sp.Attrs = append(sp.Attrs,
		span.String("server.address", address),
		span.Int("server.port", int64(port)),
		span.String("network.peer.address", remote),
		span.Int("network.peer.port", int64(o.remotePort)),
		span.Int(semconv.BytesReceived, int64(o.received)),
		span.Int(semconv.BytesSent, int64(o.sent)))

	if server {
		sp.Attrs = append(sp.Attrs, span.Int(semconv.Calls, int64(o.calls)))
	}
	if b.cfg.Sequence || o.sequence != 0 {
		sp.Attrs = append(sp.Attrs,
			span.String("network.local.address", b.names.text(o.local, o.family)),
			span.Int("network.local.port", int64(o.localPort)),
			span.Int(semconv.StreamOffset, int64(o.offset)),
			span.Int(semconv.StreamSequence, int64(o.sequence)))
	}
	if !server && o.peerTraced {
		sp.Attrs = append(sp.Attrs, span.Bool(semconv.PeerTraced, true))
	}

	if !o.responded && sp.Status != span.Error {
		switch {
		case o.unfinished:
			sp.Attrs = append(sp.Attrs, span.Bool(semconv.Unfinished, true))
		case f.unanswered, server && o.received == 0:
			// nothing was asked that could have been answered
		case reason == bpf.TareEndReasonTARE_END_PIPELINED:
			sp.Attrs = append(sp.Attrs, span.Bool(semconv.Pipelined, true))
		case errno != 0:
			fail(sp, unix.ErrnoName(unix.Errno(errno)))
		default:
			fail(sp, "no_response")
		}
	}
	switch {
	case o.has(bpf.TareStartFlagsTARE_F_UNLINKED), o.unlinked != 0 && o.calls == 0:
		sp.Attrs = append(sp.Attrs, span.String(semconv.Linking, semconv.LinkingNone))
	case o.unlinked != 0:
		sp.Attrs = append(sp.Attrs, span.String(semconv.Linking, semconv.LinkingUncertain))
	}
	if why := event.UnlinkedName(o.unlinked); why != "" {
		sp.Attrs = append(sp.Attrs, span.String(semconv.LinkingReason, why))
	}
	if o.has(bpf.TareStartFlagsTARE_F_BEHIND) {
		name, _, _ := bytes.Cut(o.behind[:], []byte{0})
		sp.Attrs = append(sp.Attrs, span.String(semconv.Behind, printable(name)))
	}
	if o.has(bpf.TareStartFlagsTARE_F_PIPELINED) && reason != bpf.TareEndReasonTARE_END_PIPELINED {
		sp.Attrs = append(sp.Attrs, span.Bool(semconv.Pipelined, true))
	}
}

func describeHTTP(sp *span.Span, f facts, server bool, address string, port uint16) {
	sp.Name = f.operation
	sp.Attrs = append(sp.Attrs,
		span.String("http.request.method", f.operation),
		span.String("url.path", f.target),
		span.String("network.protocol.version", f.version))
	if server {
		sp.Attrs = append(sp.Attrs, span.String("url.scheme", "http"))
	} else {
		sp.Attrs = append(sp.Attrs, span.String("url.full", fullURL(address, port, f.target)))
	}
	if f.status != 0 {
		sp.Attrs = append(sp.Attrs, span.Int("http.response.status_code", int64(f.status)))
	}
	if f.status >= 500 || (!server && f.status >= 400) {
		fail(sp, strconv.Itoa(f.status))
	}
}

func (o *open) has(flag bpf.TareStartFlags) bool { return o.flags&uint8(flag) != 0 }

// fullURL is url.full; IPv6 addresses stand in brackets.
func fullURL(address string, port uint16, path string) string {
	buf := make([]byte, 0, 64)
	buf = append(buf, "http://"...)
	if len(address) > 0 && address[0] != '[' && hasColon(address) {
		buf = append(buf, '[')
		buf = append(buf, address...)
		buf = append(buf, ']')
	} else {
		buf = append(buf, address...)
	}
	if port != 80 {
		buf = append(buf, ':')
		buf = strconv.AppendUint(buf, uint64(port), 10)
	}
	if len(path) == 0 || path[0] != '/' {
		buf = append(buf, '/')
	}
	return string(append(buf, path...))
}

func hasColon(s string) bool {
	for i := range len(s) {
		if s[i] == ':' {
			return true
		}
	}
	return false
}

func fail(sp *span.Span, kind string) {
	sp.Status = span.Error
	sp.Attrs = append(sp.Attrs, span.String("error.type", kind))
}
