// Package path asks whether Tare's TCP options survive the path to another host, and who takes
// them away: it opens a connection, sends segments on it that hold no data but a tag that means
// nothing, with a time to live that ends at one router after the other, and looks at what these
// quote of them (RFC 792, RFC 4443). Where `tare doctor --answer` listens at the other end, that
// says what arrived, and sends some back.
//
// It does not guess: of what no hop tells, and no other end, it says so.
package path

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	most     = 30                     // hops
	tries    = 3                      // for each
	wait     = 700 * time.Millisecond // for an answer; Linux answers what is out of its window every 500 ms at most
	silences = 5                      // hops in a row that do not answer, until the search ends
	several  = 5                      // probes to the other end, and back
	greeting = "tare doctor: path\n"
)

// Probe asks about the path to each address of the peer, HOST:PORT, of which one of each family is taken.
// Something must listen there; it gets a connection and no data. It needs CAP_NET_RAW.
func Probe(ctx context.Context, peer string) ([]*Report, error) {
	host, portName, err := net.SplitHostPort(peer)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", portName)
	if err != nil {
		return nil, err
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var reports []*Report
	var failed error
	done := map[bool]bool{}
	for _, a := range addresses {
		a = a.Unmap()
		if done[a.Is6()] {
			continue
		}
		done[a.Is6()] = true
		r, err := probe(ctx, netip.AddrPortFrom(a, uint16(port))) //nolint:gosec // a port
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", a, err))
			continue
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return nil, failed
	}
	return reports, nil
}

// prober has one connection.
type prober struct {
	raw           *raw
	local, remote netip.AddrPort
	segments      chan segment // of the peer
	quotes        chan hop
	state         state
}

type hop struct {
	from netip.Addr
	quote
}

// state is what a segment needs to belong to a connection.
type state struct {
	seq, ack    uint32
	value, echo uint32
	timestamps  bool
	at          time.Time // when the peer sent the value back
}

// learn takes it from a segment of the peer, which expects the next byte from next on.
func (st *state) learn(s *segment, next uint32) {
	st.seq, st.ack = s.ack, next
	if value, echo, ok := s.timestamps(); ok {
		st.timestamps, st.value, st.echo, st.at = true, echo, value, time.Now()
	}
}

// segment is one without data that is behind what has arrived, so that it is answered and has no effect.
func (st *state) segment(from, to netip.AddrPort, tag []byte) segment {
	s := segment{src: from.Port(), dst: to.Port(), seq: st.seq - 1, ack: st.ack, flags: flagACK}
	if st.timestamps {
		// Later than what the host itself has sent since, in whichever unit it counts: Linux from 6.14 on does not answer what
		// is older. That it is too late has no effect: what is outside of the window changes no state (RFC 7323, section 5.3).
		later := uint32(time.Since(st.at).Microseconds()) //nolint:gosec // a probe takes a minute
		s.options = append(s.options, kindNOP, kindNOP, kindTimestamps, 10)
		s.options = binary.BigEndian.AppendUint32(s.options, st.value+later)
		s.options = binary.BigEndian.AppendUint32(s.options, st.echo)
	}
	s.options = append(s.options, tag...)
	return s
}

func probe(ctx context.Context, remote netip.AddrPort) (*Report, error) {
	// Which of this host's addresses it is: connected, not sent to.
	route, err := net.Dial("udp", remote.String())
	if err != nil {
		return nil, err
	}
	local := route.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap() //nolint:forcetypeassert // of udp
	_ = route.Close()
	w, err := listenRaw(remote.Addr().Is6(), local)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.close() }()
	p := &prober{raw: w, remote: remote, segments: make(chan segment, 256), quotes: make(chan hop, 64)}
	go w.each(func(from netip.Addr, s segment) {
		if from == remote.Addr() && s.src == remote.Port() {
			select {
			case p.segments <- s:
			default: // somebody floods
			}
		}
	})
	go w.eachQuote(func(from netip.Addr, q quote) {
		select {
		case p.quotes <- hop{from, q}:
		default:
		}
	})
	dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: local.AsSlice(), Zone: local.Zone()}}
	conn, err := dialer.DialContext(ctx, "tcp", remote.String())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close(); _ = w.close() })()
	p.local = netip.AddrPortFrom(local, conn.LocalAddr().(*net.TCPAddr).AddrPort().Port()) //nolint:forcetypeassert // of tcp
	report := &Report{Peer: remote.String(), Hops: []Hop{}}
	if err := p.begin(report); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	hello, _ := in.ReadString('\n') // most servers say nothing
	report.Asked = hello == greeting

	plain, tagged := p.answers(ctx, nil), p.answers(ctx, probeTag(0))
	if err := p.walk(ctx, report, tagged); err != nil {
		return nil, err
	}
	if report.Asked {
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if err := p.ask(conn, in, report); err != nil {
			return nil, fmt.Errorf("the other end: %w", err)
		}
	}
	report.conclude(plain, tagged)
	return report, ctx.Err()
}

// begin waits for the segment that accepted the connection.
func (p *prober) begin(report *Report) error {
	for end := time.After(wait); ; {
		select {
		case s := <-p.segments:
			if s.dst != p.local.Port() || s.flags&(flagSYN|flagACK) != flagSYN|flagACK {
				continue
			}
			p.state.learn(&s, s.seq+1)
			report.Room = optionsMax
			if p.state.timestamps {
				report.Room -= 12
			}
			if o, ok := s.option(kindMSS); ok && len(o) == 4 {
				report.MSS = int(binary.BigEndian.Uint16(o[2:]))
			}
			return nil
		case <-end:
			return errors.New("the connection was opened, but none of its segments was seen on a raw socket")
		}
	}
}

// send sends one probe. A time to live of 0 is the host's own.
func (p *prober) send(ttl int, tag []byte) error {
	if err := p.raw.setTTL(ttl); err != nil {
		return err
	}
	s := p.state.segment(p.local, p.remote, tag)
	return p.raw.send(s.encode(p.local.Addr(), p.remote.Addr()), p.remote.Addr())
}

func (p *prober) drain() {
	for {
		select {
		case <-p.segments:
		case <-p.quotes:
		default:
			return
		}
	}
}

// answers reports whether the host answers a probe.
func (p *prober) answers(ctx context.Context, tag []byte) bool {
	for range tries {
		p.drain()
		if p.send(0, tag) != nil {
			return false
		}
		if h := p.next(ctx, 0); h.Option == Reached {
			// Not to be taken for an answer to the next probe, which comes after what Linux waits at least.
			time.Sleep(wait)
			return true
		}
	}
	return false
}

// next is what comes of a probe.
func (p *prober) next(ctx context.Context, ttl int) Hop {
	for end := time.After(wait); ; {
		select {
		case s := <-p.segments:
			if s.dst == p.local.Port() && s.flags&(flagSYN|flagRST) == 0 {
				return Hop{ttl, p.remote.Addr().String(), Reached}
			}
		case q := <-p.quotes:
			if q.to != p.remote.Addr() || q.segment.src != p.local.Port() || q.segment.dst != p.remote.Port() {
				continue
			}
			h := Hop{ttl, q.from.String(), Untold}
			if tag, ok := q.segment.option(kindTag); ok && isProbeTag(tag) {
				h.Option = Intact
			} else if q.segment.whole {
				h.Option = Gone
			}
			if !q.exceeded {
				h.Option = Refused
			}
			return h
		case <-end:
			return Hop{TTL: ttl, Option: Silent}
		case <-ctx.Done():
			return Hop{TTL: ttl, Option: Silent}
		}
	}
}

// walk asks one hop after the other, until the host or who does not pass the probe on.
func (p *prober) walk(ctx context.Context, report *Report, tagged bool) error {
	silent := 0
	for ttl := 1; ttl <= most && ctx.Err() == nil; ttl++ {
		h := Hop{TTL: ttl, Option: Silent}
		for try := 0; try < tries && h.Option == Silent; try++ {
			p.drain()
			if err := p.send(ttl, probeTag(byte(ttl))); err != nil { //nolint:gosec // at most 30
				return fmt.Errorf("send a probe: %w", err)
			}
			h = p.next(ctx, ttl)
		}
		report.Hops = append(report.Hops, h)
		switch h.Option {
		case Reached, Refused:
			return nil
		case Silent:
			if silent++; silent == silences || !tagged && silent == tries {
				return nil
			}
		default:
			silent = 0
		}
	}
	return nil
}

// ask sends probes, has the other end say how many it has received, and send as many.
func (p *prober) ask(conn net.Conn, in *bufio.Reader, report *Report) error {
	report.Sent = several
	for n := range several {
		if err := p.send(0, probeTag(byte(most+1+n))); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(conn, "seen\n"); err != nil {
		return err
	}
	answer, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if report.Arrived, err = strconv.Atoi(strings.TrimSpace(answer)); err != nil {
		return err
	}
	p.drain()
	if _, err := io.WriteString(conn, "send\n"); err != nil {
		return err
	}
	for end := time.After(3 * wait); report.Back < several; {
		select {
		case s := <-p.segments:
			if tag, ok := s.option(kindTag); ok && isProbeTag(tag) && s.dst == p.local.Port() {
				report.Back++
			}
		case <-end:
			return nil
		}
	}
	return nil
}

// raw are the sockets that see and send segments, and see what routers say.
type raw struct {
	tcp, icmp *net.IPConn
	v6        bool
}

// listenRaw listens at an address of this host, or at all of a family.
func listenRaw(v6 bool, local netip.Addr) (*raw, error) {
	family, icmp := "ip4", "ip4:icmp"
	if v6 {
		family, icmp = "ip6", "ip6:ipv6-icmp"
	}
	var at *net.IPAddr
	if local.IsValid() {
		at = &net.IPAddr{IP: local.AsSlice(), Zone: local.Zone()}
	}
	w := &raw{v6: v6}
	var err error
	if w.tcp, err = net.ListenIP(family+":tcp", at); err != nil {
		return nil, fmt.Errorf("raw socket (needs root, or CAP_NET_RAW): %w", err)
	}
	if w.icmp, err = net.ListenIP(icmp, at); err != nil {
		return nil, errors.Join(fmt.Errorf("raw socket for ICMP: %w", err), w.tcp.Close())
	}
	return w, nil
}

func (w *raw) close() error { return errors.Join(w.tcp.Close(), w.icmp.Close()) }

func (w *raw) setTTL(n int) error {
	if n == 0 {
		n = 64
	}
	if w.v6 {
		return ipv6.NewConn(w.tcp).SetHopLimit(n)
	}
	return ipv4.NewConn(w.tcp).SetTTL(n)
}

func (w *raw) send(b []byte, to netip.Addr) error {
	_, err := w.tcp.WriteToIP(b, &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()})
	return err
}

// each calls f for each segment that arrives, until the sockets are closed.
func (w *raw) each(f func(netip.Addr, segment)) {
	read(w.tcp, func(from netip.Addr, b []byte) {
		if s, ok := parseSegment(b); ok {
			s.options = append([]byte(nil), s.options...)
			f(from, s)
		}
	})
}

// eachQuote calls f for each packet that is quoted.
func (w *raw) eachQuote(f func(netip.Addr, quote)) {
	read(w.icmp, func(from netip.Addr, b []byte) {
		if q, ok := parseQuote(b, w.v6); ok {
			q.segment.options = append([]byte(nil), q.segment.options...)
			f(from, q)
		}
	})
}

func read(c *net.IPConn, f func(netip.Addr, []byte)) {
	b := make([]byte, 64<<10)
	for {
		n, from, err := c.ReadFromIP(b)
		if err != nil {
			return // closed
		}
		if a, ok := netip.AddrFromSlice(from.IP); ok {
			f(a.Unmap(), b[:n])
		}
	}
}
