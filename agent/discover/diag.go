package discover

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	tcpListen         = 10 // TCP_LISTEN
	sockDiagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	diagRequestLength = 16 + 56
	diagAnswerLength  = 72 // struct inet_diag_msg
)

// diagListeners asks the kernel for the listening TCP sockets of the thread's
// network namespace (NETLINK_SOCK_DIAG, inet_diag.h) and notes their ports by
// inode.
func diagListeners(into map[uint64]uint16) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return fmt.Errorf("ask for listening sockets: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // only asked
	buf := make([]byte, 1<<15)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := diagFamily(fd, family, buf, into); err != nil {
			return fmt.Errorf("ask for listening sockets: %w", err)
		}
	}
	return nil
}

func diagFamily(fd int, family byte, buf []byte, into map[uint64]uint16) error {
	var request [diagRequestLength]byte
	ne := binary.NativeEndian
	ne.PutUint32(request[0:], diagRequestLength)
	ne.PutUint16(request[4:], sockDiagByFamily)
	ne.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[16], request[17] = family, unix.IPPROTO_TCP
	ne.PutUint32(request[20:], 1<<tcpListen)
	if err := unix.Sendto(fd, request[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Header.Type != unix.NLMSG_DONE && m.Header.Type != unix.NLMSG_ERROR {
				diagAnswer(m.Data, into)
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

// diagAnswer reads a struct inet_diag_msg.
func diagAnswer(msg []byte, into map[uint64]uint16) {
	if len(msg) < diagAnswerLength || msg[1] != tcpListen {
		return
	}
	if inode := binary.NativeEndian.Uint32(msg[68:]); inode != 0 {
		into[uint64(inode)] = binary.BigEndian.Uint16(msg[4:])
	}
}
