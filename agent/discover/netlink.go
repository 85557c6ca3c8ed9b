package discover

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxAddresses bounds how many addresses of a network namespace are read: who is in it
// may give it millions.
const maxAddresses = 1 << 16

// netlink is a socket of one of the kernel's netlink families, in the thread's network
// namespace.
type netlink struct {
	fd  int
	buf []byte
}

func openNetlink(family int) (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return nil, err
	}
	return &netlink{fd, make([]byte, 1<<15)}, nil
}

func (l *netlink) close() { _ = unix.Close(l.fd) } // only asked

// ask sends a request and hands the answers to each, until there are no more or each has
// enough.
func (l *netlink) ask(kind, flags uint16, body []byte, each func(m syscall.NetlinkMessage) (more bool)) error {
	ne := binary.NativeEndian
	request := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	ne.PutUint32(request[0:], uint32(unix.NLMSG_HDRLEN+len(body)))
	ne.PutUint16(request[4:], kind)
	ne.PutUint16(request[6:], unix.NLM_F_REQUEST|flags)
	if err := unix.Sendto(l.fd, append(request, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		n, _, err := unix.Recvfrom(l.fd, l.buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		messages, err := syscall.ParseNetlinkMessage(l.buf[:n])
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Header.Type != unix.NLMSG_DONE && m.Header.Type != unix.NLMSG_ERROR {
				if !each(m) {
					return nil
				}
				continue
			}
			if len(m.Data) < 4 {
				return errMalformed
			}
			if errno := -int32(ne.Uint32(m.Data)); errno > 0 {
				return unix.Errno(errno)
			}
			return nil
		}
	}
}

// ownAddresses are those of all interfaces in the thread's network namespace, at most
// maxAddresses.
func ownAddresses() (found []netip.Addr, err error) {
	l, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer l.close()
	body := make([]byte, unix.SizeofIfAddrmsg)
	err = l.ask(unix.RTM_GETADDR, unix.NLM_F_DUMP, body, func(m syscall.NetlinkMessage) bool {
		if a := addressOf(m); a.IsValid() {
			found = append(found, a)
		}
		return len(found) < maxAddresses
	})
	return found, err
}

// addressOf reads a struct ifaddrmsg: of an interface with a peer, IFA_LOCAL is its own
// address.
func addressOf(m syscall.NetlinkMessage) (a netip.Addr) {
	if m.Header.Type != unix.RTM_NEWADDR {
		return a
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(&m)
	if err != nil {
		return a
	}
	for _, at := range attributes {
		if at.Attr.Type == unix.IFA_LOCAL || at.Attr.Type == unix.IFA_ADDRESS && !a.IsValid() {
			if ip, ok := netip.AddrFromSlice(at.Value); ok {
				a = ip.Unmap()
			}
		}
	}
	return a
}

// Elsewhere are those of some addresses that other hosts answer for, as this network
// namespace routes: packets to them leave by a device that leads out of this host.
func Elsewhere(addresses []netip.Addr) (away map[netip.Addr]bool, err error) {
	l, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer l.close()
	leads := map[uint32]bool{} // by index
	away = map[netip.Addr]bool{}
	for _, a := range addresses {
		if a.IsLoopback() || a.IsLinkLocalUnicast() {
			continue
		}
		device, local, err := l.route(a)
		if err != nil || local { // unreachable: nobody answers, as far as this one knows
			continue
		}
		out, known := leads[device]
		if !known {
			out = leadsOut("/sys/class/net", nameOf(device))
			leads[device] = out
		}
		if out {
			away[a] = true
		}
	}
	return away, nil
}

// route asks by which device packets to an address leave; local: they do not.
func (l *netlink) route(to netip.Addr) (device uint32, local bool, err error) {
	family, raw := byte(unix.AF_INET), to.AsSlice()
	if to.Is6() {
		family = unix.AF_INET6
	}
	body := make([]byte, unix.SizeofRtMsg+unix.SizeofRtAttr, unix.SizeofRtMsg+unix.SizeofRtAttr+len(raw))
	body[0], body[1] = family, byte(to.BitLen())
	binary.NativeEndian.PutUint16(body[unix.SizeofRtMsg:], uint16(unix.SizeofRtAttr+len(raw)))
	binary.NativeEndian.PutUint16(body[unix.SizeofRtMsg+2:], unix.RTA_DST)
	err = l.ask(unix.RTM_GETROUTE, 0, append(body, raw...), func(m syscall.NetlinkMessage) bool {
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil || len(m.Data) < unix.SizeofRtMsg {
			return false
		}
		local = m.Data[7] == unix.RTN_LOCAL // rtm_type
		for _, at := range attributes {
			if at.Attr.Type == unix.RTA_OIF && len(at.Value) == 4 {
				device = binary.NativeEndian.Uint32(at.Value)
			}
		}
		return false
	})
	return device, local, err
}

func nameOf(index uint32) string {
	l, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return ""
	}
	defer l.close()
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], index)
	name := ""
	_ = l.ask(unix.RTM_GETLINK, 0, body, func(m syscall.NetlinkMessage) bool { // of one that is gone, nothing
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		for _, at := range attributes {
			if err == nil && at.Attr.Type == unix.IFLA_IFNAME {
				name = unix.ByteSliceToString(at.Value)
			}
		}
		return false
	})
	return name
}

// tunnels are types of devices (DEVTYPE) that lead to other hosts.
var tunnels = []string{"vxlan", "geneve", "wireguard"}

// leadsOut reports whether a device is one of hardware, or on top of one, or a tunnel. A
// bridge joins what is on this host, whatever else it joins.
func leadsOut(sys, name string) bool {
	if name == "" {
		return false
	}
	dir := filepath.Join(sys, name)
	if exists(filepath.Join(dir, "device")) {
		return true
	}
	if exists(filepath.Join(dir, "bridge")) {
		return false
	}
	uevent, _ := os.ReadFile(filepath.Join(dir, "uevent")) // without it, nothing says that it is a tunnel
	for _, kind := range tunnels {
		if strings.Contains(string(uevent), "DEVTYPE="+kind+"\n") {
			return true
		}
	}
	lower, _ := filepath.Glob(filepath.Join(dir, "lower_*")) // the pattern is well formed
	for _, l := range lower {
		if leadsOut(sys, strings.TrimPrefix(filepath.Base(l), "lower_")) {
			return true
		}
	}
	return false
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
