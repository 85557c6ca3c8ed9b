package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
)

// forger is a TCP client in user space, over a raw socket: it says of its
// segments' options what it likes. It does one thing at a time, loses nothing
// and expects nothing to be lost.
type forger struct {
	t        *testing.T
	fd       int
	to       unix.SockaddrInet4
	src, dst [4]byte
	port     uint16 // of the server
	local    uint16 // of the connection
	seq, ack uint32
}

const (
	fin = 1 << iota
	syn
	rst
	psh
	ack
)

func newForger(t *testing.T, h hosts, port int) *forger {
	t.Helper()
	f := &forger{t: t, src: netip.MustParseAddr(h.a4).As4(), dst: netip.MustParseAddr(h.b4).As4(), port: uint16(port), local: 20000}
	f.to.Addr = f.dst
	// The kernel knows nothing of these connections and would reset them. Its
	// resets carry no acknowledgement, ours do.
	sh(t, "ip", "netns", "exec", h.a, "nft", "add table ip forger; "+
		"add chain ip forger out { type filter hook output priority 0; }; "+
		"add rule ip forger out tcp flags & (rst | ack) == rst drop")
	within(t, h.a, func() (err error) {
		f.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		wait := unix.NsecToTimeval(int64(time.Second))
		return unix.SetsockoptTimeval(f.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
	})
	t.Cleanup(func() { _ = unix.Close(f.fd) })
	return f
}

func (f *forger) send(flags byte, options, payload []byte) {
	f.t.Helper()
	for len(options)%4 != 0 {
		options = append(options, 1)
	}
	s := make([]byte, 20, 20+len(options)+len(payload))
	binary.BigEndian.PutUint16(s, f.local)
	binary.BigEndian.PutUint16(s[2:], f.port)
	binary.BigEndian.PutUint32(s[4:], f.seq)
	binary.BigEndian.PutUint32(s[8:], f.ack)
	s[12] = byte(20+len(options)) / 4 << 4
	s[13] = flags
	binary.BigEndian.PutUint16(s[14:], 0xffff)
	s = append(append(s, options...), payload...)
	binary.BigEndian.PutUint16(s[16:], f.checksum(s))
	if err := unix.Sendto(f.fd, s, 0, &f.to); err != nil {
		f.t.Fatalf("raw socket: %v", err)
	}
	f.seq += uint32(len(payload))
	if flags&(syn|fin) != 0 {
		f.seq++
	}
}

// ipOptions has the kernel put options into the IP headers of what is sent from now on.
func (f *forger) ipOptions(options []byte) {
	f.t.Helper()
	if err := unix.SetsockoptString(f.fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(options)); err != nil {
		f.t.Fatalf("IP options %x: %v", options, err)
	}
}

func (f *forger) checksum(segment []byte) uint16 {
	pseudo := append(append([]byte{}, f.src[:]...), f.dst[:]...)
	pseudo = append(pseudo, 0, unix.IPPROTO_TCP, byte(len(segment)>>8), byte(len(segment)))
	all := append(pseudo, segment...)
	if len(all)%2 != 0 {
		all = append(all, 0)
	}
	var sum uint32
	for i := 0; i < len(all); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(all[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// receive waits for a segment of the connection with one of the flags or with
// data.
func (f *forger) receive(flags byte) (data []byte) {
	f.t.Helper()
	buf := make([]byte, 2048)
	for deadline := testkit.NewDeadline(3 * time.Second); !deadline.Over(); {
		n, _, err := unix.Recvfrom(f.fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue // nothing for a second
		}
		if err != nil {
			f.t.Fatalf("raw socket: %v", err)
		}
		tcp, ok := tcpHeader(buf[:n])
		if !ok || binary.BigEndian.Uint16(tcp) != f.port || binary.BigEndian.Uint16(tcp[2:]) != f.local {
			continue
		}
		if tcp[13]&rst != 0 {
			f.t.Fatal("the server has reset the connection")
		}
		data = buf[int(buf[0]&15)*4+len(tcp) : n]
		if tcp[13]&flags == 0 && len(data) == 0 {
			continue
		}
		f.ack = binary.BigEndian.Uint32(tcp[4:]) + uint32(len(data))
		if tcp[13]&syn != 0 {
			f.ack++
		}
		return data
	}
	f.t.Fatal("the server does not answer")
	return nil
}

// forged says which segments of a connection carry which options.
type forged struct {
	onSYN, onACK, onData []byte
	ip                   []byte // in the IP header, with the data
}

// request makes a connection, asks for a path and reads the answer.
func (f *forger) request(path string, o forged) {
	f.t.Helper()
	f.begin(path, o)
	answer := string(f.receive(psh))
	if !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		f.t.Errorf("%s: %q", path, answer)
	}
	f.end()
}

func (f *forger) begin(path string, o forged) {
	f.t.Helper()
	f.local++
	f.seq, f.ack = uint32(f.local)<<12, 0
	f.send(syn, o.onSYN, nil)
	f.receive(syn)
	f.send(ack, o.onACK, nil)
	f.ipOptions(o.ip)
	f.send(ack|psh, o.onData, []byte("GET "+path+" HTTP/1.1\r\nHost: test\r\n\r\n"))
	f.ipOptions(nil)
}

func (f *forger) end() {
	f.t.Helper()
	f.send(ack, nil, nil)
	f.send(rst|ack, nil, nil)
}

// option is one of a kind that is as long as it says, of bytes that are no
// zeros.
func option(kind byte, length int) []byte {
	o := make([]byte, length)
	for i := range o {
		o[i] = byte(0x40 + i)
	}
	o[0], o[1] = kind, byte(length)
	return o
}

// tag is a valid option of 26 bytes.
func tag(trace, id byte) []byte {
	o := make([]byte, 26)
	o[0], o[1] = kindTag, 26
	o[17], o[18], o[25] = trace, id, id
	return o
}

// lie sends options that lie about their length. Linux 6.7 and later drop such
// segments themselves; before, they are answered. Either way nothing comes of
// it but the next request.
func (f *forger) lie(kind byte) {
	f.t.Helper()
	for _, says := range []byte{0, 1, 41, 255} {
		o := option(kind, 40)
		o[1] = says
		f.begin("/lie", forged{onData: o})
		f.end()
		f.begin("/lie", forged{onACK: o})
		f.end()
	}
}

// everyLength is one option for each kind and length.
func everyLength() (all [][]byte, tags, malformed int) {
	for _, kind := range []byte{kindTag, kindMark} {
		for length := 2; length <= 40; length++ {
			all = append(all, option(kind, length))
			if kind == kindTag {
				tags++
				if length < 26 || length > 28 {
					malformed++
				}
			}
		}
	}
	return all, tags, malformed
}

// Options of every length from a network that is trusted: what has no meaning
// is counted, and the server answers.
func TestMalformedOptions(t *testing.T) {
	t.Parallel()
	f, a, s := forgery(t, true)
	all, _, malformed := everyLength()
	for i, o := range all {
		f.request(fmt.Sprintf("/n/%d", i), forged{onData: o})
	}
	f.lie(kindTag)
	f.lie(kindMark)
	f.request("/n/1000", forged{})
	zeroTrace, zeroSpan := tag(0, 9), tag(9, 0)
	f.request("/n/1001", forged{onData: zeroTrace})
	f.request("/n/1002", forged{onData: zeroSpan})
	m := a.settle()
	if got := m.ignored("malformed"); got != malformed+2 {
		t.Errorf("%d malformed tags counted, want %d:\n%v", got, malformed+2, m)
	}
	if got := m.ignored("untrusted"); got != 0 {
		t.Errorf("%d tags of a trusted network counted as untrusted", got)
	}
	for _, sp := range s.all() {
		if sp.TraceID.IsZero() || sp.Kind != span.Server {
			t.Errorf("%s", describe(&sp))
		}
	}

	// On the segments of the handshake they do no harm either.
	before := a.mustMetrics().ignored("malformed")
	for i := 2; i <= 36; i += 7 { // 2, 9, 16, 23, 30
		f.request(fmt.Sprintf("/n/%d", 2000+i), forged{onSYN: option(kindTag, i)})
		f.request(fmt.Sprintf("/n/%d", 2100+i), forged{onACK: option(kindTag, i)})
		f.request(fmt.Sprintf("/n/%d", 2200+i), forged{onSYN: option(kindMark, i), onACK: option(kindMark, i)})
	}
	if after := a.settle().ignored("malformed"); after < before+5 {
		t.Errorf("%d malformed tags counted on the handshake's segments", after-before)
	}
}

// A network that is not trusted cannot write itself into a trace, nor silence
// the requests that come from it.
func TestUntrustedOptions(t *testing.T) {
	t.Parallel()
	f, a, s := forgery(t, false)
	all, tags, _ := everyLength()
	for i, o := range all {
		f.request(fmt.Sprintf("/n/%d", i), forged{onData: o})
	}
	mark := []byte{kindMark, 4, 0x54, 0x61}
	f.request("/n/1000", forged{onData: mark})
	f.request("/n/1001", forged{onSYN: mark, onACK: mark, onData: mark})
	f.request("/n/1002", forged{onACK: tag(1, 1), onData: tag(1, 1)})
	f.request("/n/1003", forged{onSYN: tag(1, 2)})
	m := a.settle()
	if got := m.ignored("untrusted"); got < tags+2 {
		t.Errorf("%d untrusted tags counted, want at least %d:\n%v", got, tags+2, m)
	}
	requests := len(all) + 4
	if m.sampled() != requests {
		t.Errorf("%d root decisions for %d requests", m.sampled(), requests)
	}
	seen := map[span.TraceID]bool{}
	for _, sp := range s.all() {
		if !sp.Parent.IsZero() || seen[sp.TraceID] {
			t.Errorf("not a trace of its own: %s", describe(&sp))
		}
		seen[sp.TraceID] = true
	}
	if len(seen) != requests {
		t.Errorf("%d traces of %d requests", len(seen), requests)
	}
}

// inIP is the option of an IPv4 header that carries options of TCP.
func inIP(options ...[]byte) []byte {
	o := append([]byte{ip4Option, 0}, slices.Concat(options...)...)
	o[1] = byte(len(o))
	return o
}

// In IP headers: what has no meaning is counted, tags are believed once.
func TestForgedIPHeaders(t *testing.T) {
	t.Parallel()
	f, a, s := forgery(t, true, tagIP)
	all, malformed := [][]byte{}, 0
	for length := 2; length <= 38; length++ {
		all = append(all, option(kindTag, length), option(kindMark, length))
		if length < 26 || length > 28 {
			malformed++
		}
	}
	for _, says := range []byte{0, 1, 29, 255} { // not as long as they say
		lie := option(kindTag, 26)
		lie[1] = says
		all, malformed = append(all, lie), malformed+1
	}
	for i, o := range all {
		f.request(fmt.Sprintf("/n/%d", i), forged{ip: inIP(o)})
	}
	f.request("/n/1000", forged{ip: inIP(tag(0, 9))})
	f.request("/n/1001", forged{ip: []byte{1, 1, 1, 1, ip4Option, 2, 1}})
	f.request("/n/1002", forged{ip: option(ip4Option+1, 40)})
	f.request("/n/2000", forged{ip: inIP(tag(7, 7))})
	f.request("/n/2001", forged{ip: inIP(tag(7, 7))})
	f.request("/n/2002", forged{ip: append([]byte{1, 1}, inIP(tag(7, 8), []byte{kindMark, 4, 0x54, 0x61})...)})
	f.request("/n/2003", forged{onData: tag(7, 9)}) // this agent reads none there
	m := a.settle()
	if got := m.ignored("malformed"); got != malformed+1 {
		t.Errorf("%d malformed tags counted, want %d:\n%v", got, malformed+1, m)
	}
	if got := m.ignored("replayed"); got != 1 {
		t.Errorf("%d replayed tags counted", got)
	}
	paths := map[string]byte{}
	for _, sp := range s.all() {
		if p, _ := sp.Attr("url.path"); sp.TraceID == (span.TraceID{15: 7}) {
			paths[p.Str] = sp.Parent[7]
		}
	}
	if len(paths) != 2 || paths["/n/2000"] != 7 || paths["/n/2002"] != 8 {
		t.Errorf("requests that took a forged tag, and its span id: %v", paths)
	}
}

// And none is believed from elsewhere.
func TestUntrustedIPHeaders(t *testing.T) {
	t.Parallel()
	f, a, s := forgery(t, false, tagIP)
	for i := range byte(10) {
		f.request(fmt.Sprintf("/n/%d", i), forged{ip: inIP(tag(1, i+1))})
	}
	m := a.settle()
	if m.ignored("untrusted") != 10 || m.sampled() != 10 {
		t.Errorf("%d untrusted tags, %d root decisions", m.ignored("untrusted"), m.sampled())
	}
	for _, sp := range s.all() {
		if !sp.Parent.IsZero() {
			t.Errorf("not a trace of its own: %s", describe(&sp))
		}
	}
}

// A tag begins one request; whoever repeats it gets no second one.
func TestReplayedTag(t *testing.T) {
	t.Parallel()
	f, a, s := forgery(t, true)
	f.request("/n/1", forged{onData: tag(7, 7)})
	f.request("/n/2", forged{onData: tag(7, 7)})
	f.request("/n/3", forged{onData: tag(7, 8)})
	f.request("/n/4", forged{onData: tag(7, 7)})
	m := a.settle()
	if got := m.ignored("replayed"); got != 2 {
		t.Errorf("%d replayed tags counted, want 2:\n%v", got, m)
	}
	paths := map[string]byte{}
	for _, sp := range s.all() {
		if sp.TraceID != (span.TraceID{15: 7}) {
			t.Errorf("in another trace: %s", describe(&sp))
		}
		p, _ := sp.Attr("url.path")
		paths[p.Str] = sp.Parent[7]
	}
	if len(paths) != 2 || paths["/n/1"] != 7 || paths["/n/3"] != 8 {
		t.Errorf("requests that took a forged tag, and its span id: %v", paths)
	}
}

// forgery is an nginx on one host, an agent that traces it, and a forger on
// the other host, whom the agent trusts or not.
func forgery(t *testing.T, trusted bool, args ...string) (*forger, *tracer, *sink) {
	t.Helper()
	h := newHosts(t)
	st, s, port := newStack(t), newSink(t), testkit.FreePort(t)
	st.nginxUnready("proxy", h.b, answer(h.b4+":"+itoa(port)))
	f := newForger(t, h, port)
	testkit.Until(t, deadline, "nginx listens", func() bool { return st.listens(h.b, port) })
	if trusted {
		args = append(args, h.trusted()...)
	}
	a := trace(t, s, nil, append([]string{"--port", "proxy=" + itoa(port)}, args...)...)
	return f, a, s
}
