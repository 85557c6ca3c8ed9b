package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// Of several tiers the first that loads is taken, each is loaded once, and what is
// refused is told with its reason.
func TestChooseAmongTiers(t *testing.T) {
	tiers := []*tier.Tier{{Name: "new"}, {Name: "middle"}, {Name: "old"}}
	for _, tt := range []struct {
		refuses []string
		want    string
	}{
		{nil, "new"},
		{[]string{"new"}, "middle"},
		{[]string{"new", "middle"}, "old"},
		{[]string{"new", "middle", "old"}, ""},
	} {
		var loaded []string
		var log bytes.Buffer
		got, err := choose(tiers, func(c *tier.Tier) (*Tracer, error) {
			loaded = append(loaded, c.Name)
			if slices.Contains(tt.refuses, c.Name) {
				return nil, &Refusal{Tier: c.Name, Program: "tare_send", Hook: tier.Tracepoint("a"), Reason: "not for " + c.Name}
			}
			return &Tracer{tier: c}, nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		want := slices.Clone(tt.refuses)
		if tt.want != "" {
			want = append(want, tt.want)
		}
		if !slices.Equal(loaded, want) || (err == nil) != (tt.want != "") || err == nil && got.Tier() != tt.want {
			t.Errorf("without %v: loaded %v, error %v", tt.refuses, loaded, err)
		}
		for _, name := range tt.refuses {
			if told := "tier " + name + ": tare_send at tp_btf/a: not for " + name; !strings.Contains(log.String(), told) ||
				err != nil && !strings.Contains(err.Error(), told) {
				t.Errorf("%s: error %v, log\n%s", name, err, log.String())
			}
		}
		if err != nil && !strings.Contains(err.Error(), "tare doctor") {
			t.Error(err)
		}
	}
}

// A tier that is asked for is not replaced by another; unasked, the next one is taken.
func TestTierRefused(t *testing.T) {
	needRoot(t)
	load(t, Options{}).Close() // the library opens descriptors of its own once
	before := openFiles(t)
	withTier(t, func(*tier.Program) {})
	good := tier.All[0]
	bad := good
	bad.Name, bad.Programs = "bad", slices.Clone(good.Programs)
	bad.Programs[1].Hook.To = "tare_no_such_hook"
	tier.All = []tier.Tier{bad, good}

	_, err := Load(withCgroup(t, Options{Tier: "bad"}))
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Program != bad.Programs[1].Name || !strings.Contains(refusal.Reason, "tare_no_such_hook") || !strings.Contains(err.Error(), "tare doctor") {
		t.Errorf("%v", err)
	}
	tracer := load(t, Options{})
	if tracer.Tier() != good.Name {
		t.Errorf("took %s", tracer.Tier())
	}
	tracer.Close()
	attempts := Try(withCgroup(t, Options{}))
	if len(attempts) != 2 || attempts[0].Err == nil || attempts[1].Err != nil {
		t.Errorf("%+v", attempts)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// What the verifier says of a program is told on one line, whole and without its log.
func TestRefusalInTheKernelsWords(t *testing.T) {
	needRoot(t)
	_, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SockOps, AttachType: ebpf.AttachCGroupSockOps, License: "GPL",
		Instructions: asm.Instructions{asm.FnGetCurrentComm.Call(), asm.Return()},
	})
	if text := words(fmt.Errorf("program x: %w", err)); strings.Contains(text, "\n") || !strings.Contains(text, "#16") && !strings.Contains(text, "R1") {
		t.Errorf("%q", text)
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&ebpf.VerifierError{Cause: unix.EACCES, Log: []string{
			"; x = y->z; @ hooks.bpf.c:12", "17: (79) r1 = *(u64 *)(r2 +0)", "R2 invalid mem access 'scalar'", "verification time 12 usec",
			"processed 18 insns (limit 1000000)",
		}}, "permission denied: R2 invalid mem access 'scalar' (x = y->z; @ hooks.bpf.c:12)"},
		{&ebpf.VerifierError{Cause: unix.E2BIG}, "argument list too long"},
		{fmt.Errorf("map create: %w (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", unix.EPERM), "map create: operation not permitted"},
		{fmt.Errorf("program tare_send: load program: %w", unix.EPERM), "load program: operation not permitted"},
	} {
		if got := words(tt.err); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// Programs attach at every kind of hook that this kernel takes, tracepoints at least.
func TestAttach(t *testing.T) {
	needRoot(t)
	onThread(func() { attachEverywhere(t) })
}

// attachEverywhere mounts the tracing file system for its thread.
func attachEverywhere(t *testing.T) {
	err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "")
	}
	if err != nil && !errors.Is(err, unix.EBUSY) { // it is there already
		t.Error(err)
		return
	}
	for _, h := range []tier.Hook{
		tier.Fentry("tcp_sendmsg"),
		tier.Kprobe("tcp_sendmsg"),
		{Type: ebpf.TracePoint, To: "sched/sched_process_fork"},
	} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: h.Type, AttachType: h.Attach, AttachTo: h.To, License: "Dual BSD/GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		if err == nil {
			var l link.Link
			if l, err = attachTo(h, p, ""); err == nil {
				err = l.Close()
			}
			_ = p.Close()
		}
		if err != nil {
			t.Logf("%v: %s", h, words(err))
		}
		if err != nil && h.Type == ebpf.TracePoint {
			t.Errorf("%v: %v", h, err)
		}
	}
}

// That a connection can be armed is known by arming one, of which nothing is left.
func TestTryArm(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{})
	defer tracer.Close()
	empty := func(when string) {
		t.Helper()
		n, err := tracer.Counters()
		if err != nil || n != (bpf.TareCounters{}) {
			t.Errorf("%s: %+v, %v", when, n, err)
		}
		if l, err := tracer.Listeners(); err != nil || len(l) > 0 {
			t.Errorf("%s: listeners %v, %v", when, l, err)
		}
	}
	empty("loaded")
	want := [2]uint64{1, 0}
	if slices.ContainsFunc(tracer.Lost(), func(l tier.Loss) bool { return l.Capability == "open_connections" }) {
		want = [2]uint64{0, 1} // before Linux 6.12
	}
	if armed, refused, err := tracer.armOwn(); err != nil || [2]uint64{armed, refused} != want {
		t.Errorf("armed %d, refused %d, want %v; %v", armed, refused, want, err)
	}
	empty("tried again")
}
