package load

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// resolve looks the address up, once: a look-up for each connection would be
// the resolver's load, and its latency.
func resolve(ctx context.Context, address string) ([]unix.Sockaddr, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	var all []unix.Sockaddr
	for _, ip := range ips {
		ip = ip.Unmap()
		if ip.Is4() {
			all = append(all, &unix.SockaddrInet4{Port: port, Addr: ip.As4()})
			continue
		}
		zone, err := zoneID(ip)
		if err != nil {
			return nil, err
		}
		all = append(all, &unix.SockaddrInet6{Port: port, ZoneId: zone, Addr: ip.As16()})
	}
	return all, nil
}

func zoneID(ip netip.Addr) (uint32, error) {
	if ip.Zone() == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(ip.Zone(), 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(ip.Zone())
	if err != nil {
		return 0, fmt.Errorf("load: zone of %v: %w", ip, err)
	}
	return uint32(i.Index), nil
}

// dial begins to connect to the current address.
func (c *conn) dial() {
	c.state = dialing
	c.l.mu.Lock()
	c.l.tally.dials++
	c.l.mu.Unlock()
	if err := c.connect(c.l.addresses[c.address]); err != nil {
		c.refused(err)
	}
}

func (c *conn) connect(to unix.Sockaddr) error {
	family := unix.AF_INET
	if _, six := to.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.fd, c.hup = fd, false
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	// EINTR: it goes on all the same.
	if err := unix.Connect(fd, to); err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		return err
	}
	// What has happened by now is an edge, too: nothing is missed.
	return c.l.poll.add(fd, c.index, c.generation, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET)
}

// dialed is called when there is news of the connection.
func (c *conn) dialed(events uint32) {
	errno, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
	case errno != 0:
		err = unix.Errno(errno)
	case events&unix.EPOLLOUT == 0:
		return // not yet
	case c.isSelf(c.l.addresses[c.address]):
		err = unix.ECONNREFUSED
	}
	if err != nil {
		c.refused(err)
		return
	}
	c.resp.reset(c)
	c.request()
}

// isSelf tells a socket that is connected to itself: where nobody listens on a
// port that the kernel gives to clients, it may happen to give just that one.
func (c *conn) isSelf(peer unix.Sockaddr) bool {
	self, err := unix.Getsockname(c.fd)
	if err != nil {
		return false
	}
	switch p := peer.(type) {
	case *unix.SockaddrInet4:
		s, ok := self.(*unix.SockaddrInet4)
		return ok && s.Port == p.Port && (s.Addr == p.Addr || p.Addr == [4]byte{})
	case *unix.SockaddrInet6:
		s, ok := self.(*unix.SockaddrInet6)
		return ok && s.Port == p.Port && (s.Addr == p.Addr || p.Addr == [16]byte{})
	}
	return false
}

// refused tries the next address of the name, or gives up.
func (c *conn) refused(err error) {
	c.hangUp()
	if c.address++; c.address < len(c.l.addresses) {
		c.dial()
		return
	}
	c.fail(err)
}
