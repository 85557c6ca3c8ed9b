package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// Of struct bpf_sock_ops.
const (
	opsOp          = 0
	opsFlags       = 84 // bpf_sock_ops_cb_flags
	opEstablished  = 4  // BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, and 5: PASSIVE
	allFlags       = 0x7f
	callsOfFlagged = 6 // BPF_SOCK_OPS_RTO_CB and above are called because of flags
)

// otherSockOps attaches another tracer's sock_ops program, behind Tare's: for each connection
// that is established it sets the flags to what the instructions leave in R2.
func otherSockOps(t *testing.T, flags asm.Instructions) {
	t.Helper()
	body := append(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, opsOp, asm.Word),
		asm.JLT.Imm(asm.R7, opEstablished, "end"),
		asm.JGE.Imm(asm.R7, callsOfFlagged, "end"),
	}, flags...)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "other_tracer", Type: ebpf.SockOps, AttachType: ebpf.AttachCGroupSockOps, License: "GPL",
		Instructions: append(body,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.FnSockOpsCbFlagsSet.Call(),
			asm.Mov.Imm(asm.R0, 1).WithSymbol("end"),
			asm.Return()),
	})
	if err != nil {
		t.Fatal(err)
	}
	root := cgroupRoot(t)
	l, err := link.AttachCgroup(link.CgroupOptions{Path: root, Attach: ebpf.AttachCGroupSockOps, Program: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		_ = p.Close()
	})
}

// Another tracer that sets flags of its own, and keeps Tare's, changes nothing.
func TestOtherSockOpsSetsFlags(t *testing.T) {
	alone(t, "another tracer sees every connection of the host")
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append(ports(c), overWire)...)
	otherSockOps(t, asm.Instructions{
		asm.LoadMem(asm.R2, asm.R6, opsFlags, asm.Word),
		asm.Or.Imm(asm.R2, allFlags),
	})
	requests := few(300)
	send(t, load.Options{Addr: c.Entry, Connections: 8, Requests: uint64(requests), AppendPath: c.AppendPath})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, accounted)
	if n := m.int("tare_disarmed_total"); n != 0 {
		t.Errorf("%d connections disarmed", n)
	}
}

// One that clears all flags: Tare says so, and sets its own again.
func TestOtherSockOpsClearsFlags(t *testing.T) {
	alone(t, "another tracer sees every connection of the host")
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append(ports(c), overWire)...)
	if a.mustMetrics()[`tare_capability{name="open_connections"}`] == 0 {
		t.Skip("this kernel sets no flags of an open connection")
	}
	otherSockOps(t, asm.Instructions{asm.Mov.Imm(asm.R2, 0)})
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 4, Rate: 100, AppendPath: c.AppendPath})
	testkit.Until(t, 30*time.Second, "Tare notices", func() bool { return a.mustMetrics().int("tare_disarmed_total") > 0 })
	// What was cleared is set again: tags pass on the connections that are open.
	received := func() int { return a.mustMetrics().int(`tare_tags_total{direction="received"}`) }
	before := received()
	testkit.Until(t, 30*time.Second, "tags pass again", func() bool { return received() > before+50 })
	l.end()
	if said := a.Log.String(); !strings.Contains(said, "another program clears") {
		t.Errorf("it does not say so:\n%s", said)
	}
}
