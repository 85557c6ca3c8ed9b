package spans

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// A query of glibc 2.36 for www.Example.org, and what dnsmasq 2.90 answered (48 bytes of it).
const (
	dnsQuery  = "\x1c\x2d\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07Example\x03org\x00\x00\x1c\x00\x01"
	dnsAnswer = "\x1c\x2d\x85\x80\x00\x01\x00\x01\x00\x00\x00\x00\x03www\x07Example\x03org\x00\x00\x1c\x00\x01\xc0\x0c\x00\x1c\x00\x01\x00\x00"
)

func overUDP(s *bpf.Start) {
	s.Transport = uint32(bpf.TareTransportTARE_OVER_UDP)
	s.RemotePort = 53
}

func TestLookup(t *testing.T) {
	nxdomain := []byte(dnsAnswer)
	nxdomain[3] |= 3
	unknown := []byte(dnsAnswer)
	unknown[3] |= 0xb
	long := dnsQuery[:dnsHeader] + strings.Repeat("\x3f"+strings.Repeat("a", 63), 4)
	for name, c := range map[string]struct {
		query, answer, span, question, failure string
	}{
		"answered":  {dnsQuery, dnsAnswer, "DNS AAAA", "www.example.org", ""},
		"error":     {dnsQuery, string(nxdomain), "DNS AAAA", "www.example.org", "NXDOMAIN"},
		"unknown":   {dnsQuery, string(unknown), "DNS AAAA", "www.example.org", "_OTHER"},
		"another's": {dnsQuery, "\x00\x00" + string(nxdomain[2:]), "DNS AAAA", "www.example.org", ""},
		"cut off":   {dnsQuery[:24], dnsAnswer, "DNS", "www.example", ""},
		"root":      {dnsQuery[:dnsHeader] + "\x00\x00\x02\x00\x01", "", "DNS NS", ".", "timeout"},
		"type":      {dnsQuery[:dnsHeader] + "\x01a\x00\x01\x01\x00\x01", "", "DNS TYPE257", "a", "timeout"},
		"pointer":   {dnsQuery[:dnsHeader] + "\xc0\x0c\x00\x01\x00\x01", "", "DNS", "", "timeout"},
		"long":      {long[:bpf.TarePayloadStart], "", "DNS", strings.Join([]string{strings.Repeat("a", 63), strings.Repeat("a", 63), strings.Repeat("a", 51)}, "."), "timeout"},
		"control":   {dnsQuery[:dnsHeader] + "\x03a\nb\x00\x00\x01\x00\x01", "", "DNS A", "a.b", "timeout"},
		"short":     {dnsQuery[:5], "", "DNS", "", "timeout"},
		"unread":    {"", "", "DNS", "", "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(Config{Sequence: true})
			f.start(2, client, 1000, c.query, overUDP)
			if c.answer != "" {
				f.data(2, received, 5000, c.answer)
			}
			f.end(2, bpf.TareEndReasonTARE_END_STREAM, 0)
			if len(f.spans) != 1 {
				t.Fatalf("%d spans", len(f.spans))
			}
			s := f.spans[0]
			a := attrs(s)
			if s.Name != c.span || s.Kind != span.Client || a["dns.question.name"] != c.question || a["error.type"] != c.failure || (s.Status == span.Error) != (c.failure != "") {
				t.Errorf("%s %v %q", s.Name, s.Status, a)
			}
			if a["network.transport"] != "udp" || a["network.protocol.name"] != "dns" || a["server.port"] != "53" || a["server.address"] != "10.0.0.9" {
				t.Errorf("%q", a)
			}
			if a["tare.tcp.offset"] != "" {
				t.Errorf("a position in a stream: %q", a)
			}
			if c.answer != "" && s.Duration() != 4000 {
				t.Errorf("%d ns", s.Duration())
			}
		})
	}
}

// A look-up without an answer ends long before other requests do, and is an error.
func TestLookupUnanswered(t *testing.T) {
	f := newFixture(Config{})
	now := Monotonic()
	f.start(2, client, now-uint64(lookupTime-10*time.Second), dnsQuery, overUDP)
	f.start(3, client, now-uint64(lookupTime+time.Second), dnsQuery, overUDP)
	f.start(4, client, now-uint64(lookupTime+time.Second), dnsQuery, nil)
	f.Sweep()
	if len(f.spans) != 1 || f.spans[0].ID[0]|f.spans[0].ID[7] != 3 || attrs(f.spans[0])["error.type"] != "timeout" || f.Open() != 2 {
		t.Errorf("%+v, %d open", f.spans, f.Open())
	}
	if len(f.unfinished) > 0 {
		t.Errorf("unfinished: %v", f.unfinished)
	}
}

func TestLookupOverTCP(t *testing.T) {
	prefix := func(s string) string { return "\x00" + string(rune(len(s))) + s }
	to := func(port uint16) func(*bpf.Start) { return func(s *bpf.Start) { s.RemotePort = port } }
	f := newFixture(Config{})
	f.start(1, client, 1, prefix(dnsQuery), to(53))
	f.data(1, received, 2, prefix(dnsAnswer))
	f.start(2, client, 1, prefix(dnsQuery)[:2], func(s *bpf.Start) { // from two buffers
		s.RemotePort, s.Bytes = 53, uint32(2+len(dnsQuery))
	})
	f.start(3, client, 1, prefix(dnsQuery), to(5300))
	f.start(4, server, 1, prefix(dnsQuery), to(53))
	f.start(5, client, 1, "GET / HTTP/1.1\r\n", to(53))
	for id := uint64(1); id <= 5; id++ {
		f.end(id, closed, 0)
	}
	var names []string
	for _, s := range f.spans {
		names = append(names, s.Name+" "+attrs(s)["dns.question.name"])
	}
	if want := []string{"DNS AAAA www.example.org", "DNS ", "tcp ", "tcp ", "GET "}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func FuzzDNS(f *testing.F) {
	f.Add([]byte(dnsQuery), []byte(dnsAnswer), true)
	f.Add([]byte("\x00\x21"+dnsQuery), []byte("\x00\x40"+dnsAnswer), false)
	f.Fuzz(func(t *testing.T, request, response []byte, udp bool) {
		b := newFixture(Config{})
		change := overUDP
		if !udp {
			change = func(s *bpf.Start) { s.RemotePort = dnsPort }
		}
		b.start(1, client, 1, string(request[:min(len(request), bpf.TarePayloadStart)]), change)
		b.data(1, received, 2, string(response[:min(len(response), bpf.TarePayloadData)]))
		b.FinishAll()
		for _, s := range b.spans {
			for _, a := range append(s.Attrs, span.String("name", s.Name)) {
				if strings.ContainsFunc(a.Str, func(c rune) bool { return c < 0x20 || c > 0x7e }) || len(a.Str) > 1024 {
					t.Fatalf("%s is %q", a.Key, a.Str)
				}
			}
		}
	})
}
