package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/tier"
)

const (
	cbFlags      = 1008 // TCP_BPF_SOCK_OPS_CB_FLAGS, newer than the call itself
	iterSocket   = 8    // offset of sk_common in struct bpf_iter__tcp
	errnoNotSeen = 1
)

// tryArm sets the callback flags (to none) of a socket that was open before,
// from an iterator. That bpf_setsockopt may be called there is known by
// loading; that it accepts this option only by a run. The socket is a listener
// of our own, found by its cookie; no other is touched.
func tryArm(m *maps) error {
	results, err := m.get(ebpf.Array)
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // the iterator would meet the subflow, with another cookie
	l, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		l, err = lc.Listen(context.Background(), "tcp6", "[::1]:0")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	defer func() { _ = l.Close() }() // it never accepted
	cookie, err := cookieOf(l)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	if err := results.Put(uint32(0), uint64(errnoNotSeen)); err != nil {
		return err
	}
	p, err := load(tier.IterTCP, arm(results.FD(), cookie))
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }() // the iterator holds it
	if err := iterate(p); err != nil {
		return err
	}
	var result uint64
	if err := results.Lookup(uint32(0), &result); err != nil {
		return err
	}
	switch errno := int64(result); {
	case errno == errnoNotSeen:
		return fmt.Errorf("%w: the iterator did not meet the socket", errUnknown)
	case errno < 0:
		return fmt.Errorf("bpf_setsockopt(TCP_BPF_SOCK_OPS_CB_FLAGS): %w", syscall.Errno(-errno))
	}
	return nil
}

func iterate(p *ebpf.Program) (err error) {
	it, err := link.AttachIter(link.IterOptions{Program: p})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	r, err := it.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

func cookieOf(l net.Listener) (cookie uint64, err error) {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
	})
	return cookie, errors.Join(err, cerr)
}

func arm(results int, cookie uint64) asm.Instructions {
	return append(asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, iterSocket, asm.DWord),
		asm.JEq.Imm(asm.R6, 0, "out"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnGetSocketCookie.Call(),
		asm.LoadImm(asm.R1, int64(cookie), asm.DWord),
		asm.JNE.Reg(asm.R0, asm.R1, "out"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.StoreImm(asm.RFP, -8, 0, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, unix.SOL_TCP),
		asm.Mov.Imm(asm.R3, cbFlags),
		asm.Mov.Reg(asm.R4, asm.RFP),
		asm.Add.Imm(asm.R4, -8),
		asm.Mov.Imm(asm.R5, 4),
		asm.FnSetsockopt.Call(),
		asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
		asm.StoreImm(asm.RFP, -16, 0, asm.Word), // the map's key
		asm.LoadMapPtr(asm.R1, results),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -16),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	}, labelled("out", ret(0))...)
}
