package integration

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// hosts are two network namespaces joined by veth, and a third cable from here
// to the first of them, over which clients come:
//
//	here ── 198.51.100.4n/30 ── a ── 203.0.113.4n/30, 2001:db8::n:0/126 ── b
//
// The addresses are those that are reserved for documentation, n is another for each pair: tests run
// beside each other, and an agent knows the addresses of all network namespaces.
type hosts struct {
	a, b       string // the namespaces
	entry      string // a's address for clients that are here
	a4, b4     string
	a6, b6     string
	net4, net6 string // of the cable
}

// family is that of the addresses by which the hosts reach each other.
type family string

const (
	ipv4 family = "IPv4"
	ipv6 family = "IPv6"
)

// addressB is b's address of a family.
func (h hosts) addressB(f family) string {
	if f == ipv6 {
		return h.b6
	}
	return h.b4
}

// trusted are an agent's flags with which it trusts the cable.
func (h hosts) trusted() []string { return []string{"--trust", h.net4, "--trust", h.net6} }

var namesGiven, hostsMade atomic.Int64

const cable = "cable" // the device in a and in b

// anotherName is a part of the names of namespaces and devices. It is used once: the kernel takes
// namespaces down in its own time.
func anotherName() string { return fmt.Sprintf("%d-%d", os.Getpid()%1000000, namesGiven.Add(1)) }

func newHosts(t *testing.T) hosts {
	t.Helper()
	need(t, "ip", "nft")
	nth := anotherName()
	n := int(hostsMade.Add(1))
	// Networks of four addresses. The first 2 of 198.51.100.0/24 are TestDoctorPath's, its upper half is newLAN's.
	entry, between := 4*(2+n%30), 4*(1+n%63)
	h := hosts{
		a: "tare-a-" + nth, b: "tare-b-" + nth, entry: fmt.Sprintf("198.51.100.%d", entry+2),
		a4: fmt.Sprintf("203.0.113.%d", between+1), b4: fmt.Sprintf("203.0.113.%d", between+2), net4: fmt.Sprintf("203.0.113.%d/30", between),
		a6: fmt.Sprintf("2001:db8::%x:1", n), b6: fmt.Sprintf("2001:db8::%x:2", n), net6: fmt.Sprintf("2001:db8::%x:0/126", n),
	}
	makeNamespaces(t, h.a, h.b)
	sh(t, "ip", "-n", h.a, "link", "add", cable, "type", "veth", "peer", "name", cable, "netns", h.b)
	for _, end := range []struct{ ns, v4, v6 string }{{h.a, h.a4, h.a6}, {h.b, h.b4, h.b6}} {
		plug(t, end.ns, cable, end.v4, end.v6)
	}
	here := "tare" + nth
	t.Cleanup(func() { sh(t, "ip", "link", "del", here) })
	sh(t, "ip", "link", "add", here, "type", "veth", "peer", "name", "client", "netns", h.a)
	sh(t, "ip", "address", "add", fmt.Sprintf("198.51.100.%d/30", entry+1), "dev", here)
	sh(t, "ip", "link", "set", here, "up")
	sh(t, "ip", "-n", h.a, "address", "add", h.entry+"/30", "dev", "client")
	sh(t, "ip", "-n", h.a, "link", "set", "client", "up")
	return h
}

var ofARun = regexp.MustCompile(`^tare(?:-[a-z]-)?(\d+)-\d+[a-z]?$`)

// removeLeft removes the namespaces and devices of runs that were killed: their
// addresses are those of the next run, too.
func removeLeft() error {
	left := func(name string) bool {
		m := ofARun.FindStringSubmatch(name)
		if m == nil {
			return false
		}
		exe, err := os.Readlink("/proc/" + m[1] + "/exe")
		name = strings.TrimSuffix(filepath.Base(exe), " (deleted)")
		return err != nil || !strings.HasSuffix(name, ".test") && !strings.HasPrefix(name, "tare")
	}
	ip := program("ip")
	if ip == "" || os.Getuid() != 0 {
		return nil
	}
	var failed error
	remove := func(argv ...string) {
		if out, err := exec.Command(ip, argv...).CombinedOutput(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("ip %s: %w: %s", strings.Join(argv, " "), err, out))
		}
	}
	// A device of a namespace that still holds a process goes by itself, if its other
	// end does; so devices go first.
	devices, err := net.Interfaces()
	for _, d := range devices {
		if left(d.Name) {
			remove("link", "del", d.Name)
		}
	}
	namespaces, _ := os.ReadDir("/run/netns") // is not there before the first one
	for _, ns := range namespaces {
		if left(ns.Name()) {
			remove("netns", "del", ns.Name())
		}
	}
	return errors.Join(err, failed)
}

func makeNamespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, ns := range names {
		sh(t, "ip", "netns", "add", ns)
		t.Cleanup(func() { sh(t, "ip", "netns", "del", ns) })
		sh(t, "ip", "-n", ns, "link", "set", "lo", "up")
	}
}

// plug gives a device in a namespace its addresses, each of a network of four.
func plug(t *testing.T, ns, device, v4, v6 string) {
	t.Helper()
	sh(t, "ip", "-n", ns, "address", "add", v4+"/30", "dev", device)
	sh(t, "ip", "-n", ns, "address", "add", v6+"/126", "dev", device, "nodad")
	sh(t, "ip", "-n", ns, "link", "set", device, "up")
}

// lose drops 2% of what arrives over the cable, at both ends.
func (h hosts) lose(t *testing.T) {
	t.Helper()
	for _, ns := range []string{h.a, h.b} {
		sh(t, "ip", "netns", "exec", ns, "nft",
			"add table inet loss; "+
				"add chain inet loss in { type filter hook input priority 0; }; "+
				"add rule inet loss in iifname "+cable+" meta l4proto tcp numgen random mod 100 < 2 counter drop")
	}
}

// strip blanks out Tare's TCP options in what leaves over the cable, at both ends, as
// devices do that do not know them.
func (h hosts) strip(t *testing.T) {
	t.Helper()
	for _, ns := range []string{h.a, h.b} {
		sh(t, "ip", "netns", "exec", ns, "nft",
			"add table inet strip; "+
				"add chain inet strip out { type filter hook output priority 0; }; "+
				"add rule inet strip out oifname "+cable+" meta l4proto tcp reset tcp option "+itoa(kindTag)+"; "+
				"add rule inet strip out oifname "+cable+" meta l4proto tcp reset tcp option "+itoa(kindMark))
	}
}

func (h hosts) stripNoMore(t *testing.T) {
	t.Helper()
	for _, ns := range []string{h.a, h.b} {
		sh(t, "ip", "netns", "exec", ns, "nft", "delete table inet strip")
	}
}

// dropIPOptions drops what arrives at b with options in its IP header.
func (h hosts) dropIPOptions(t *testing.T) {
	t.Helper()
	sh(t, "ip", "netns", "exec", h.b, "nft", "add table inet middle; "+
		"add chain inet middle in { type filter hook prerouting priority -300; }; "+
		"add rule inet middle in iifname "+cable+" ip hdrlength > 5 drop; "+
		"add rule inet middle in iifname "+cable+" exthdr dst exists drop")
}

// stripIPOptions makes another option, which nobody knows, of Tare's in what arrives at b.
func (h hosts) stripIPOptions(t *testing.T) {
	t.Helper()
	const ethernet, tcx, slot = 14, -1, -8
	one := func(call asm.BuiltinFunc, at int32) asm.Instructions { // byte, between packet and stack
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, ethernet+at),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, slot), asm.Mov.Imm(asm.R4, 1),
			asm.Mov.Imm(asm.R5, 0), call.Call(), asm.LoadMem(asm.R7, asm.RFP, slot, asm.Byte),
		}
	}
	set := func(at, value int32) asm.Instructions {
		return append(asm.Instructions{asm.StoreImm(asm.RFP, slot, int64(value), asm.Byte)}, one(asm.FnSkbStoreBytes, at)...)
	}
	const other = ip4Option + 1
	code := slices.Concat(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.StoreImm(asm.RFP, slot, 0, asm.Word)},
		one(asm.FnSkbLoadBytes, 0), asm.Instructions{asm.JGT.Imm(asm.R7, 0x4f, "IPv6"), asm.JLE.Imm(asm.R7, 0x45, "out")},
		one(asm.FnSkbLoadBytes, 20), asm.Instructions{asm.JNE.Imm(asm.R7, ip4Option, "out")},
		set(20, other), asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, ethernet+10),
			asm.Mov.Imm(asm.R3, int32(htons(ip4Option<<8))), asm.Mov.Imm(asm.R4, int32(htons(other<<8))),
			asm.Mov.Imm(asm.R5, 2), asm.FnL3CsumReplace.Call(), asm.Ja.Label("out"),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("IPv6"),
		},
		one(asm.FnSkbLoadBytes, 6), asm.Instructions{asm.JNE.Imm(asm.R7, unix.IPPROTO_DSTOPTS, "out")},
		set(42, ip6Option+1), // Linux refuses padding that is long or not of zeroes
		asm.Instructions{asm.Mov.Imm(asm.R0, tcx).WithSymbol("out"), asm.Return()})
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "strip", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, Instructions: code, License: "GPL"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	within(t, h.b, func() error {
		dev, err := net.InterfaceByName(cable)
		if err != nil {
			return err
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: p, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	})
}

// fewPorts has connections from a use the same ports again within seconds.
func (h hosts) fewPorts(t *testing.T) {
	t.Helper()
	within(t, h.a, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40999"), 0)
	})
}
