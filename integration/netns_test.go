package integration

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

// hosts are two network namespaces joined by veth, and a third cable from here
// to the first of them, over which clients come:
//
//	here ── 198.51.100.0/30 ── a ── 203.0.113.0/30, 2001:db8::/126 ── b
//
// The addresses are those that are reserved for documentation.
type hosts struct{ a, b string }

var hostsMade atomic.Int64

const (
	fromHere  = "198.51.100.2"
	addrA4    = "203.0.113.1"
	addrB4    = "203.0.113.2"
	addrB6    = "2001:db8::2"
	cableNet  = "203.0.113.0/30"
	cableNet6 = "2001:db8::/126"
	cable     = "cable" // the device in a and in b
)

func newHosts(t *testing.T) hosts {
	t.Helper()
	need(t, "ip", "nft")
	// Names are used once: the kernel takes namespaces down in its own time.
	nth := fmt.Sprintf("%d-%d", os.Getpid()%1000000, hostsMade.Add(1))
	h := hosts{"tare-a-" + nth, "tare-b-" + nth}
	for _, ns := range []string{h.a, h.b} {
		sh(t, "ip", "netns", "add", ns)
		t.Cleanup(func() { sh(t, "ip", "netns", "del", ns) })
		sh(t, "ip", "-n", ns, "link", "set", "lo", "up")
	}
	sh(t, "ip", "-n", h.a, "link", "add", cable, "type", "veth", "peer", "name", cable, "netns", h.b)
	for _, end := range []struct{ ns, v4, v6 string }{{h.a, addrA4, "2001:db8::1"}, {h.b, addrB4, addrB6}} {
		sh(t, "ip", "-n", end.ns, "address", "add", end.v4+"/30", "dev", cable)
		sh(t, "ip", "-n", end.ns, "address", "add", end.v6+"/126", "dev", cable, "nodad")
		sh(t, "ip", "-n", end.ns, "link", "set", cable, "up")
	}
	here := "tare" + nth
	t.Cleanup(func() { sh(t, "ip", "link", "del", here) })
	sh(t, "ip", "link", "add", here, "type", "veth", "peer", "name", "client", "netns", h.a)
	sh(t, "ip", "address", "add", "198.51.100.1/30", "dev", here)
	sh(t, "ip", "link", "set", here, "up")
	sh(t, "ip", "-n", h.a, "address", "add", fromHere+"/30", "dev", "client")
	sh(t, "ip", "-n", h.a, "link", "set", "client", "up")
	return h
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
