package path

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	mostPeers = 1024
	patience  = 5 * time.Minute // of a connection
)

// Answer tells who probes this host at the address what has arrived, until the context ends. It needs CAP_NET_RAW.
func Answer(ctx context.Context, address string, say func(format string, args ...any)) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	a := &answerer{port: l.Addr().(*net.TCPAddr).AddrPort().Port(), raw: map[bool]*raw{}, peers: map[netip.AddrPort]*peer{}, more: make(chan struct{})} //nolint:forcetypeassert // of tcp
	defer func() {
		for _, w := range a.raw {
			_ = w.close()
		}
	}()
	for _, v6 := range []bool{false, true} {
		w, err := listenRaw(v6, netip.Addr{})
		if err != nil {
			if v6 {
				break // a host without IPv6
			}
			return errors.Join(err, l.Close())
		}
		a.raw[v6] = w
		go w.each(a.take)
	}
	say("tare doctor: answering at %s", l.Addr())
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		all.Go(func() {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			if err := a.serve(conn); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
				say("tare doctor: %s: %v", conn.RemoteAddr(), err)
			}
		})
	}
}

type answerer struct {
	port uint16
	raw  map[bool]*raw // by whether it is IPv6

	mu    sync.Mutex
	peers map[netip.AddrPort]*peer
	more  chan struct{} // closed when more was seen of any
}

// peer is the other end of a connection.
type peer struct {
	state state // of this end
	seen  int   // probes
	first uint32
	bytes uint32 // of its data that were seen, from first on
}

// take notes a segment that arrived for the port.
func (a *answerer) take(from netip.Addr, s segment) {
	if s.dst != a.port {
		return
	}
	at := netip.AddrPortFrom(from, s.src)
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.peers[at]
	if p == nil {
		if s.flags&flagSYN == 0 || len(a.peers) >= mostPeers {
			return
		}
		p = &peer{first: s.seq + 1}
		a.peers[at] = p
	}
	if s.flags&flagACK != 0 {
		p.state.learn(&s, s.seq)
	}
	if end := s.seq + uint32(s.data) - p.first; s.data > 0 && int32(end-p.bytes) > 0 { //nolint:gosec // RFC 9293, section 3.4: numbers wrap
		p.bytes = end
		close(a.more)
		a.more = make(chan struct{})
	}
	if tag, ok := s.option(kindTag); ok && isProbeTag(tag) && tag[25] > most {
		p.seen++ // those with less were for the hops between
	}
}

func (a *answerer) serve(conn net.Conn) error {
	remote, local := conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort() //nolint:forcetypeassert // of tcp
	remote, local = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()), netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	defer func() {
		a.mu.Lock()
		delete(a.peers, remote)
		a.mu.Unlock()
	}()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, greeting); err != nil {
		return err
	}
	read := 0
	for in := bufio.NewReaderSize(conn, 64); ; {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		read += len(line)
		now := a.after(remote, uint32(read)) //nolint:gosec // lines of a few bytes, for five minutes
		switch string(line) {
		case "seen\n":
			if _, err := fmt.Fprintf(conn, "%d\n", now.seen); err != nil {
				return err
			}
		case "send\n":
			for n := range several {
				s := now.state.segment(local, remote, probeTag(byte(n)))
				if err := a.raw[remote.Addr().Is6()].send(s.encode(local.Addr(), remote.Addr()), remote.Addr()); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("asked for %q", line)
		}
	}
}

// after is what is known of a peer once the raw socket has given up to a number of bytes of its data, and so all probes that
// arrived before them; the connection itself may be read sooner.
func (a *answerer) after(remote netip.AddrPort, bytes uint32) peer {
	for late := time.After(3 * wait); ; { // where the raw socket's buffer was full
		a.mu.Lock()
		var now peer
		if p := a.peers[remote]; p != nil {
			now = *p
		}
		more := a.more
		a.mu.Unlock()
		if now.bytes >= bytes {
			return now
		}
		select {
		case <-more:
		case <-late:
			return now
		}
	}
}
