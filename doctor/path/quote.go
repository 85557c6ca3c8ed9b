package path

import "net/netip"

// quote is what a router or the host itself says of a packet that it did not pass on.
type quote struct {
	exceeded bool // its time to live had ended
	to       netip.Addr
	segment  segment
}

const (
	timeExceeded4, unreachable4 = 11, 3
	timeExceeded6, unreachable6 = 3, 1
)

// parseQuote reads a message of ICMP (RFC 792, RFC 4443). A router adds at least 8 bytes of what the packet held; many, and
// all for IPv6, add more.
func parseQuote(b []byte, v6 bool) (q quote, ok bool) {
	if len(b) < 8 {
		return q, false
	}
	kind, inner := b[0], b[8:]
	if v6 {
		if kind != timeExceeded6 && kind != unreachable6 || len(inner) < 40 || inner[0]>>4 != 6 || inner[6] != protocolTCP {
			return q, false
		}
		q.exceeded = kind == timeExceeded6
		q.to, _ = netip.AddrFromSlice(inner[24:40])
		q.segment, ok = parseSegment(inner[40:])
		return q, ok
	}
	if kind != timeExceeded4 && kind != unreachable4 || len(inner) < headerLen || inner[0]>>4 != 4 || inner[9] != protocolTCP {
		return q, false
	}
	size := int(inner[0]&0xf) * 4
	if size < headerLen || size > len(inner) {
		return q, false
	}
	q.exceeded = kind == timeExceeded4
	q.to, _ = netip.AddrFromSlice(inner[16:20])
	q.segment, ok = parseSegment(inner[size:])
	return q, ok
}
