package spans

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

const (
	dnsPort   = 53
	dnsHeader = 12
	dnsLabel  = 63  // RFC 1035 2.3.4
	dnsName   = 255 // likewise
)

// dnsTypes and dnsErrors are names of IANA's registries.
var (
	dnsTypes = map[uint16]string{
		1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 35: "NAPTR", 64: "SVCB", 65: "HTTPS", 255: "ANY",
	}
	dnsErrors = [16]string{
		1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN", 7: "YXRRSET", 8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE",
	}
)

// identifyDNS reads a query and its answer; RFC 1035 section 4. Whatever is wrong with
// them, they went to port 53.
func identifyDNS(x exchange) (f facts) {
	f.protocol = protocolDNS
	q := x.request
	if len(q) < dnsHeader || q[2]&0x80 != 0 || binary.BigEndian.Uint16(q[4:]) == 0 {
		return f
	}
	name, rest, ok := dnsQuestion(q[dnsHeader:])
	f.target = name
	if ok && len(rest) >= 4 {
		f.operation = dnsType(binary.BigEndian.Uint16(rest))
	}
	if a := x.response; len(a) >= dnsHeader && a[0] == q[0] && a[1] == q[1] && a[2]&0x80 != 0 {
		if code := a[3] & 0xf; code != 0 {
			f.failure = dnsErrors[code]
			if f.failure == "" {
				f.failure = otherFailure
			}
		}
	}
	return f
}

// identifyDNSOverTCP reads the same behind two bytes of length; RFC 7766 section 8. Only
// those are seen of a query that is sent from two buffers, as by glibc.
func identifyDNSOverTCP(x exchange) (f facts, ok bool) {
	q, a := x.request, x.response
	if len(q) < 2 || int(binary.BigEndian.Uint16(q)) != x.size-2 || x.size < 2+dnsHeader {
		return f, false
	}
	x.request, x.response = q[2:], nil
	if len(a) > 2 {
		x.response = a[2:]
	}
	return identifyDNS(x), true
}

func dnsType(n uint16) string {
	if name := dnsTypes[n]; name != "" {
		return name
	}
	return "TYPE" + strconv.Itoa(int(n)) // RFC 3597
}

// dnsQuestion reads a name, which ends behind its last label or where it was cut off.
// Names are compared without regard to case, and resolvers may mix it at random.
func dnsQuestion(b []byte) (name string, rest []byte, ok bool) {
	var text strings.Builder
	for len(b) > 0 && text.Len() < dnsName {
		n := int(b[0])
		if n == 0 {
			return dnsRoot(text.String()), b[1:], true
		}
		if n > dnsLabel {
			break // no name of a query is compressed
		}
		if text.Len() > 0 {
			text.WriteByte('.')
		}
		text.WriteString(strings.ToLower(printable(b[1:min(1+n, len(b))])))
		b = b[min(1+n, len(b)):]
	}
	return text.String(), nil, false
}

func dnsRoot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// describeDNS has what the conventions have of DNS (1.40, in development): its question.
// The name of the span has few values.
func describeDNS(sp *span.Span, o *open, f facts) {
	sp.Name = strings.TrimSpace("DNS " + f.operation)
	texts(sp, "dns.question.name", f.target, "network.protocol.name", "dns")
	if o.transport == bpf.TareTransportTARE_OVER_UDP {
		texts(sp, "network.transport", "udp")
	} else {
		texts(sp, "network.transport", "tcp")
	}
	if f.failure != "" {
		fail(sp, f.failure)
	}
}
