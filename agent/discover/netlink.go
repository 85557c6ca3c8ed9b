package discover

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
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

// Here are those of the addresses of a process' network namespace that are proven to be on this host,
// as the thread's namespace routes: packets to them leave by a device that leads to nobody else. Of
// others it is not known who answers for them: anybody can give another host's address to themselves.
func Here(pid int, addresses []netip.Addr) (map[netip.Addr]bool, error) {
	l, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer l.close()
	leads := map[uint32]bool{} // by index
	here := map[netip.Addr]bool{}
	for _, a := range addresses {
		if a.IsLoopback() {
			here[a] = true
			continue
		}
		if a.IsLinkLocalUnicast() {
			continue // another one for each link
		}
		h, err := l.route(a)
		if err != nil || h.gateway { // who knows where that one passes it on to
			continue
		}
		if h.local {
			here[a] = true
			continue
		}
		only, known := leads[h.device]
		if !known {
			d := l.device(h.device) // numbers the network namespace where it ends
			namespace, err := l.namespace(pid)
			if err != nil {
				return nil, err
			}
			only = d.leadsHere("/sys/class/net", namespace)
			leads[h.device] = only
		}
		if only {
			here[a] = true
		}
	}
	return here, nil
}

// hop is where packets go next.
type hop struct {
	local   bool   // they do not
	gateway bool   // to one who passes them on
	device  uint32 // by index
}

// route asks where packets to an address go next.
func (l *netlink) route(to netip.Addr) (h hop, err error) {
	family, raw := byte(unix.AF_INET), to.AsSlice()
	if to.Is6() {
		family = unix.AF_INET6
	}
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1] = family, byte(to.BitLen())
	err = l.ask(unix.RTM_GETROUTE, 0, attribute(body, unix.RTA_DST, raw), func(m syscall.NetlinkMessage) bool {
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil || len(m.Data) < unix.SizeofRtMsg {
			return false
		}
		h.local = m.Data[7] == unix.RTN_LOCAL // rtm_type
		for _, at := range attributes {
			switch {
			case at.Attr.Type == unix.RTA_OIF && len(at.Value) == 4:
				h.device = binary.NativeEndian.Uint32(at.Value)
			case at.Attr.Type == unix.RTA_GATEWAY || at.Attr.Type == unix.RTA_VIA:
				h.gateway = true
			}
		}
		return false
	})
	return h, err
}

// attribute appends an attribute to the body of a request.
func attribute(body []byte, kind uint16, value []byte) []byte {
	body = binary.NativeEndian.AppendUint16(body, uint16(unix.SizeofRtAttr+len(value)))
	body = binary.NativeEndian.AppendUint16(body, kind)
	return append(body, value...)
}

// noNamespace is no network namespace's number.
const noNamespace = -1

// namespace is the number that this network namespace has for that of a process; noNamespace: it
// has none, so that no device of this one ends there.
func (l *netlink) namespace(pid int) (id int32, err error) {
	id = noNamespace
	head := make([]byte, unix.SizeofRtGenmsg+3)
	body := attribute(head, unix.NETNSA_PID, binary.NativeEndian.AppendUint32(nil, uint32(pid)))
	// The answer begins with that attribute.
	begins := attribute(head, unix.NETNSA_NSID, make([]byte, 4))
	err = l.ask(unix.RTM_GETNSID, 0, body, func(m syscall.NetlinkMessage) bool {
		if value := len(begins) - 4; len(m.Data) >= len(begins) && bytes.Equal(m.Data[len(head):value], begins[len(head):value]) {
			id = int32(binary.NativeEndian.Uint32(m.Data[value:]))
		}
		return false
	})
	return id, err
}

// device is an interface.
type device struct {
	name string // "": it is gone
	peer int32  // number of the network namespace in which its other end is; noNamespace: it has none elsewhere
}

func (l *netlink) device(index uint32) device {
	d := device{peer: noNamespace}
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], index)
	_ = l.ask(unix.RTM_GETLINK, 0, body, func(m syscall.NetlinkMessage) bool { // of one that is gone, nothing
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		for _, at := range attributes {
			switch {
			case err != nil:
			case at.Attr.Type == unix.IFLA_IFNAME:
				d.name = unix.ByteSliceToString(at.Value)
			case at.Attr.Type == unix.IFLA_LINK_NETNSID && len(at.Value) == 4:
				d.peer = int32(binary.NativeEndian.Uint32(at.Value))
			}
		}
		return false
	})
	return d
}

// tunnels are types of devices (DEVTYPE) that lead to other hosts.
var tunnels = []string{"vxlan", "geneve", "wireguard"}

// leadsHere reports whether a device leads to nobody but who is on this host, and if it has an end
// elsewhere, whether that is in a certain network namespace. Hardware, tunnels, and what a program
// holds (VPNs, virtual machines) lead to others, and so does what has one of them below it, as bridges have.
func (d device) leadsHere(sys string, namespace int32) bool {
	dir := filepath.Join(sys, d.name)
	if d.name == "" || !exists(dir) || exists(filepath.Join(dir, "device")) || exists(filepath.Join(dir, "tun_flags")) {
		return false
	}
	kind, _ := os.ReadFile(filepath.Join(dir, "type")) // without it, nothing says that it is a tunnel
	if k := strings.TrimSpace(string(kind)); k != "" && k != strconv.Itoa(unix.ARPHRD_ETHER) && k != strconv.Itoa(unix.ARPHRD_LOOPBACK) {
		return false
	}
	uevent, _ := os.ReadFile(filepath.Join(dir, "uevent")) // likewise
	for _, kind := range tunnels {
		if strings.Contains(string(uevent), "DEVTYPE="+kind+"\n") {
			return false
		}
	}
	if d.peer != noNamespace && d.peer != namespace {
		return false
	}
	lower, _ := filepath.Glob(filepath.Join(dir, "lower_*")) // the pattern is well formed
	for _, l := range lower {
		below := device{name: strings.TrimPrefix(filepath.Base(l), "lower_"), peer: noNamespace}
		if !below.leadsHere(sys, namespace) {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
