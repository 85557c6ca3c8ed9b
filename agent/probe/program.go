package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/tare-trace/tare/agent/tier"
)

const license = "Dual BSD/GPL"

func ret(value int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, value), asm.Return()}
}

// load loads a program for a hook; the caller closes it.
func load(h tier.Hook, ins asm.Instructions) (*ebpf.Program, error) {
	loaded, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tare_probe", Type: h.Type, AttachType: h.Attach, AttachTo: h.To,
		Instructions: ins, License: license,
	})
	if errors.Is(err, btf.ErrNotFound) {
		return nil, fmt.Errorf("%w: the kernel has no hook %s", errAbsent, h.To)
	}
	return loaded, err
}

// try loads a program for a hook and closes it.
func try(h tier.Hook, ins asm.Instructions) error {
	loaded, err := load(h, ins)
	if err != nil {
		return err
	}
	return loaded.Close()
}

// skStorage takes the state of a socket: the tracepoint's first argument.
func skStorage(fd int) asm.Instructions {
	return append(asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
		asm.LoadMapPtr(asm.R1, fd),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnSkStorageGet.Call(),
	}, ret(0)...)
}

// sockOpsSocket is the offset of sk in struct bpf_sock_ops, which is kernel
// interface and does not move.
const sockOpsSocket = 184

func skStorageInSockOps(fd int) asm.Instructions {
	return append(asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, sockOpsSocket, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "out"),
		asm.LoadMapPtr(asm.R1, fd),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnSkStorageGet.Call(),
	}, labelled("out", ret(1))...)
}

// taskStorage takes the state of the current thread.
func taskStorage(fd int, result int32) asm.Instructions {
	return append(asm.Instructions{
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.LoadMapPtr(asm.R1, fd),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnTaskStorageGet.Call(),
	}, ret(result)...)
}

// headerOption reserves room for an option of a TCP header, writes and reads
// one.
func headerOption() asm.Instructions {
	stackBuffer := func(size int32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -8),
			asm.Mov.Imm(asm.R3, size),
			asm.Mov.Imm(asm.R4, 0),
		}
	}
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R2, 0x04fe), // kind 254, length 4
		asm.StoreMem(asm.RFP, -8, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R2, 4),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnReserveHdrOpt.Call(),
	}
	ins = append(ins, stackBuffer(4)...)
	ins = append(ins, asm.FnStoreHdrOpt.Call())
	ins = append(ins, stackBuffer(4)...)
	ins = append(ins, asm.FnLoadHdrOpt.Call())
	return append(ins, ret(1)...)
}

// readMemory copies from address 0, which fails when it runs; it does not run.
func readMemory(helper asm.BuiltinFunc, result int32) asm.Instructions {
	return append(asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		asm.Mov.Imm(asm.R3, 0),
		helper.Call(),
	}, ret(result)...)
}

// readMessage finds the registers of the system call and copies user memory.
func readMessage() asm.Instructions {
	return append(asm.Instructions{
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.FnTaskPtRegs.Call(),
	}, readMemory(asm.FnProbeReadUser, 0)...)
}

func labelled(symbol string, ins asm.Instructions) asm.Instructions {
	ins[0] = ins[0].WithSymbol(symbol)
	return ins
}

// tryHook loads a program that does nothing. A sock_ops program has to return 1.
func tryHook(h tier.Hook) error {
	if h == tier.SockOps {
		return try(h, ret(1))
	}
	return try(h, ret(0))
}

// tryWithMap loads a program that uses a map.
func tryWithMap(h tier.Hook, m *maps, kind ebpf.MapType, ins func(fd int) asm.Instructions) error {
	used, err := m.get(kind)
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	return try(h, ins(used.FD()))
}

// tryCgroup attaches a sock_ops program that does nothing to the hierarchy's
// root, where the agent's will be, and takes it off again.
func tryCgroup(path string, mountErr error) error {
	if mountErr != nil {
		return mountErr
	}
	p, err := load(tier.SockOps, ret(1))
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }() // the link decides
	l, err := link.AttachCgroup(link.CgroupOptions{Path: path, Attach: ebpf.AttachCGroupSockOps, Program: p})
	if err != nil {
		return err
	}
	return l.Close()
}
