package workloads

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// listener is a TCP socket that accepts connections.
type listener struct {
	addr  netip.Addr
	port  int
	inode uint64 // of the socket
}

// answers reports whether a connection to host could reach it.
func (l listener) answers(host netip.Addr) bool {
	return l.addr.IsUnspecified() || l.addr.Unmap() == host.Unmap()
}

// listeners lists those of the network; nil: of this process' own.
func listeners(n *Network) ([]listener, error) {
	// Not /proc/net: that is of the thread that leads this process.
	files := []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}
	if n != nil {
		argv, err := n.command([]string{"cat", "/proc/self/net/tcp", "/proc/self/net/tcp6"})
		if err != nil {
			return nil, err
		}
		b, err := exec.Command(argv[0], argv[1:]...).Output()
		// Without IPv6, cat has read one file and complains of the other.
		if err != nil && len(b) == 0 {
			return nil, fmt.Errorf("sockets in network namespace %s: %w", n.Name, err)
		}
		return parseListeners(b), nil
	}
	var all []listener
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		all = append(all, parseListeners(b)...)
	}
	return all, nil
}

// parseListeners reads lines of /proc/net/tcp and tcp6: "sl local_address
// rem_address st tx:rx tr:when retrnsmt uid timeout inode …" (proc(5)). Lines
// that are not of this form, such as the headings, are left out.
func parseListeners(b []byte) []listener {
	const listen = "0A" // TCP_LISTEN
	var all []listener
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) < 10 || f[3] != listen {
			continue
		}
		words, port, ok := strings.Cut(f[1], ":")
		addr, err := hex.DecodeString(words)
		p, err1 := strconv.ParseUint(port, 16, 16)
		inode, err2 := strconv.ParseUint(f[9], 10, 64)
		if !ok || errors.Join(err, err1, err2) != nil || len(addr)%4 != 0 {
			continue
		}
		// The bytes of an address, printed as integers of this machine.
		for i := 0; i < len(addr); i += 4 {
			binary.NativeEndian.PutUint32(addr[i:], binary.BigEndian.Uint32(addr[i:]))
		}
		if a, ok := netip.AddrFromSlice(addr); ok {
			all = append(all, listener{addr: a, port: int(p), inode: inode})
		}
	}
	return all
}

// portFree returns an error that says who has the port, if somebody does who
// would answer in the place of a service on host.
func portFree(n *Network, host string, port int) error {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	all, err := listeners(n)
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.port == port && l.answers(addr) {
			return fmt.Errorf("port %d is in use by %s: stop it, or choose another port (0 finds a free one)", port, holder(l.inode))
		}
	}
	return nil
}

// holder names a process that has the socket, as far as it may be seen.
func holder(inode uint64) string {
	want := fmt.Sprintf("socket:[%d]", inode)
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*") // the pattern is good
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err != nil || to != want {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue // ended meanwhile
		}
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(comm)), filepath.Base(dir))
	}
	return "a process of another user"
}
