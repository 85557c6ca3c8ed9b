package spans

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// describe names a span and gives it attributes by OpenTelemetry's semantic
// conventions: HTTP 1.23 (stable), database (stable), messaging.
func (b *Builder) describe(o *open, reason bpf.TareEndReason, errno uint16) {
	sp := &o.span
	x := o.exchange()
	x.texts = &b.texts
	f := identify(x)
	if o.awaits.number != 0 {
		if continued, ok := myContinued(x, o.awaits); ok { // whatever its bytes look like
			f = continued
		}
	}
	if o.transport == bpf.TareTransportTARE_OVER_UDP {
		f = identifyDNS(x)
	} else if o.remotePort == dnsPort && o.role == bpf.TareRoleTARE_CLIENT && f.protocol == protocolTCP {
		if dns, ok := identifyDNSOverTCP(x); ok {
			f = dns
		}
	}
	overUnix := o.transport == bpf.TareTransportTARE_OVER_UNIX
	server := o.role == bpf.TareRoleTARE_SERVER
	stream := o.has(bpf.TareStartFlagsTARE_F_HTTP2)
	address, port := o.path, o.remotePort
	if !overUnix {
		k := prefixKey{remote: o.remote, family: o.family, server: server}
		if server {
			k.local, k.localPort = o.local, o.localPort
		} else {
			k.remotePort = o.remotePort
			address = b.names.text(o.remote, o.family)
		}
		if f.protocol == protocolHTTP && !stream {
			k.method, k.old, k.status = methodOf(f.operation), f.version == "1.0", uint16(f.status) //nolint:gosec // three digits
		}
		b.first.begin(sp, &k, &b.names)
		if server {
			sp.Attrs = append(sp.Attrs, span.Int("network.peer.port", int64(o.remotePort)))
		} else if b.cfg.Peer != nil {
			texts(sp, "peer.service", b.cfg.Peer(addressOf(o.remote, o.family), o.remotePort))
		}
	}

	switch {
	case stream:
		b.describeStream(o, server, address, port)
		f.protocol = protocolHTTP
	case f.protocol == protocolHTTP:
		full := ""
		switch {
		case overUnix:
			sp.Attrs = appendHTTP(sp.Attrs, f.operation, f.version, f.status, server)
			full = unixURL(address, f.target)
		case !server:
			full = fullURL(&b.texts, address, port, f.target)
		}
		describeHTTP(sp, &f, server, full)
	}
	switch f.protocol {
	case protocolHTTP:
	case protocolFastCGI:
		describeFastCGI(sp, f, server)
	case protocolRedis, protocolMemcached, protocolPostgres, protocolMySQL, protocolMongoDB:
		b.describeDatabase(o, x, f)
	case protocolDNS:
		describeDNS(sp, o, f)
	case protocolKafka, protocolAMQP:
		describeMessaging(sp, f)
	default:
		sp.Name = string(f.protocol)
	}
	if overUnix {
		describeUnix(sp, o)
	}
	sp.Attrs = append(sp.Attrs,
		span.Int(semconv.BytesReceived, int64(o.received)),
		span.Int(semconv.BytesSent, int64(o.sent)))

	if server {
		sp.Attrs = append(sp.Attrs, span.Int(semconv.Calls, int64(o.calls)))
	}
	if o.transport == bpf.TareTransportTARE_OVER_TCP && (b.cfg.Sequence || o.sequence != 0) {
		sp.Attrs = append(sp.Attrs,
			span.String("network.local.address", b.names.text(o.local, o.family)),
			span.Int("network.local.port", int64(o.localPort)),
			span.Int(semconv.StreamOffset, int64(o.offset)),
			span.Int(semconv.StreamSequence, int64(o.sequence)))
	}
	if !server && o.peerTraced {
		sp.Attrs = append(sp.Attrs, span.Bool(semconv.PeerTraced, true))
	}
	if b.cfg.Peers != nil && o.transport == bpf.TareTransportTARE_OVER_TCP {
		b.tellPeers(o, server)
	}

	b.describePublished(o)
	if b.cfg.Kept != nil {
		sp.Attrs = append(sp.Attrs, span.Bool(semconv.Retro, true))
		if why := b.cfg.Kept(sp.TraceID, o.id, o.has(bpf.TareStartFlagsTARE_F_ROOT)); why != "" {
			sp.Attrs = append(sp.Attrs, span.String(semconv.RetroReason, why))
		}
	}
	if sp.Status != span.Error {
		switch {
		case o.unfinished:
			sp.Attrs = append(sp.Attrs, span.Bool(semconv.Unfinished, true))
		case o.responded, f.unanswered, server && o.received == 0:
			// it is answered, or nothing was asked that could have been
		case reason == bpf.TareEndReasonTARE_END_PIPELINED:
			sp.Attrs = append(sp.Attrs, span.Bool(semconv.Pipelined, true))
		case o.transport == bpf.TareTransportTARE_OVER_UDP:
			fail(sp, "timeout")
		case errno != 0:
			fail(sp, unix.ErrnoName(unix.Errno(errno)))
		default:
			fail(sp, "no_response")
		}
	}
	switch {
	case !server && o.has(bpf.TareStartFlagsTARE_F_HEADER):
		sp.Attrs = append(sp.Attrs, span.String(semconv.Linking, semconv.LinkingHeader))
	case o.calls == 0 && (o.unlinked != 0 || o.has(bpf.TareStartFlagsTARE_F_UNLINKED)):
		sp.Attrs = append(sp.Attrs, span.String(semconv.Linking, semconv.LinkingNone))
	case o.unlinked != 0:
		sp.Attrs = append(sp.Attrs, span.String(semconv.Linking, semconv.LinkingUncertain))
	case o.byHeader:
		sp.Attrs = append(sp.Attrs, span.String(semconv.Linking, semconv.LinkingHeader))
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

// tellPeers tells whether the tag of a request arrived, as far as the span shows it.
func (b *Builder) tellPeers(o *open, server bool) {
	switch addr := addressOf(o.remote, o.family); {
	case server && o.has(bpf.TareStartFlagsTARE_F_TAG):
		b.cfg.Peers.TagReceived(addr)
	case !server && o.responded && !o.has(bpf.TareStartFlagsTARE_F_UNTAGGED):
		b.cfg.Peers.TagSent(addr, o.remotePort, o.peerTraced)
	}
}

// describeDatabase follows what a connection prepared before.
func (b *Builder) describeDatabase(o *open, x exchange, f facts) {
	sp := &o.span
	switch {
	case f.postgres != nil:
		b.session(o, &f)
	case f.mysql != nil:
		b.sessionMySQL(o, x, &f)
	}
	sp.Name = cmp.Or(f.summary, strings.TrimSpace(f.operation+" "+f.collection), string(f.protocol))
	sp.Attrs = append(sp.Attrs, span.String("db.system.name", string(f.protocol)))
	texts(sp, "db.namespace", f.namespace, "db.operation.name", f.operation, "db.collection.name", f.collection,
		"db.query.summary", f.summary, "db.query.text", f.target)
	if f.batch > 1 {
		sp.Attrs = append(sp.Attrs, span.Int("db.operation.batch.size", int64(f.batch)))
	}
	if f.failure != "" {
		if code := cmp.Or(f.code, f.failure); code != otherFailure {
			texts(sp, "db.response.status_code", code)
		}
		fail(sp, f.failure)
	}
}

// describeMessaging follows the conventions for messaging 1.40, which are in development.
func describeMessaging(sp *span.Span, f facts) {
	sp.Name = strings.TrimSpace(f.operation + " " + cmp.Or(f.place, f.destination))
	if f.protocol == protocolAMQP {
		sp.Name = strings.TrimSpace(f.operation + " " + f.place)
	}
	texts(sp, "messaging.system", string(f.protocol), "messaging.operation.name", f.operation, "messaging.operation.type", f.sends,
		"messaging.destination.name", f.destination, "messaging.rabbitmq.destination.routing_key", f.routing,
		"messaging.consumer.group.name", f.group)
	if f.version != "" {
		texts(sp, "network.protocol.name", string(f.protocol), "network.protocol.version", f.version)
	}
	if f.failure != "" {
		fail(sp, f.failure)
	}
}

// describeFastCGI has the attributes of HTTP but those of its URL: scheme and host are
// not among the first parameters.
func describeFastCGI(sp *span.Span, f facts, server bool) {
	sp.Name = cmp.Or(f.operation, string(f.protocol))
	if f.operation == otherFailure {
		sp.Name = "HTTP"
	}
	texts(sp, "network.protocol.name", string(f.protocol), "http.request.method", f.operation, "url.path", f.target)
	f.markCut(sp)
	if f.status != 0 {
		sp.Attrs = append(sp.Attrs, span.Int("http.response.status_code", int64(f.status)))
	}
	switch {
	case f.failure != "":
		fail(sp, f.failure)
	case f.status >= 500 || (!server && f.status >= 400):
		fail(sp, strconv.Itoa(f.status))
	}
}

// markCut says that the span's path is not all of it.
func (f *facts) markCut(sp *span.Span) {
	if f.cut {
		sp.Attrs = append(sp.Attrs, span.Bool(semconv.PathCut, true))
	}
}

// texts adds attributes, keys and values in turn, but those without a value.
func texts(sp *span.Span, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			sp.Attrs = append(sp.Attrs, span.String(pairs[i], pairs[i+1]))
		}
	}
}

// describeHTTP adds what appendHTTP does not have.
func describeHTTP(sp *span.Span, f *facts, server bool, full string) {
	sp.Name = f.operation
	if f.operation == otherFailure {
		sp.Name = "HTTP"
		sp.Attrs = append(sp.Attrs, span.String("http.request.method_original", f.original))
	}
	sp.Attrs = append(sp.Attrs, span.String("url.path", f.target))
	f.markCut(sp)
	if !server {
		sp.Attrs = append(sp.Attrs, span.String("url.full", full))
	}
	if f.status >= 500 || (!server && f.status >= 400) {
		fail(sp, strconv.Itoa(f.status))
	}
}

func (o *open) has(flag bpf.TareStartFlags) bool { return o.flags&uint8(flag) != 0 }

// fullURL is url.full; IPv6 addresses stand in brackets.
func fullURL(texts *arena, address string, port uint16, path string) string {
	buf := append(texts.begin(len("http://[]:65535/")+len(address)+len(path)), "http://"...)
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
	return texts.keep(append(buf, path...))
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
