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
	diagRequestLength = 56 // struct inet_diag_req_v2
	diagAnswerLength  = 72 // struct inet_diag_msg
)

// diagListeners asks the kernel for the listening TCP sockets of the thread's
// network namespace (NETLINK_SOCK_DIAG, inet_diag.h) and notes their ports by
// inode, until each says that it has enough.
func diagListeners(each func(inode uint64, port uint16) (more bool)) error {
	l, err := openNetlink(unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return fmt.Errorf("ask for listening sockets: %w", err)
	}
	defer l.close()
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		body := make([]byte, diagRequestLength)
		body[0], body[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(body[4:], 1<<tcpListen)
		err := l.ask(sockDiagByFamily, unix.NLM_F_DUMP, body, func(m syscall.NetlinkMessage) bool {
			inode, port := diagAnswer(m.Data)
			return inode == 0 || each(inode, port)
		})
		if err != nil {
			return fmt.Errorf("ask for listening sockets: %w", err)
		}
	}
	return nil
}

// diagAnswer reads a struct inet_diag_msg; inode 0: nothing that listens.
func diagAnswer(msg []byte) (inode uint64, port uint16) {
	if len(msg) < diagAnswerLength || msg[1] != tcpListen {
		return 0, 0
	}
	return uint64(binary.NativeEndian.Uint32(msg[68:])), binary.BigEndian.Uint16(msg[4:])
}
