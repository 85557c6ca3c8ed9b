package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/config"
)

// A cover holds what it covers, and nothing else.
func TestCover(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    func(add func(netip.Addr))
		wants int
	}{
		{"none", func(func(netip.Addr)) {}, 0},
		{"a network of 256", func(add func(netip.Addr)) { count(add, "10.0.0.0", 256, 1) }, 1},
		{"6,000 in a row", func(add func(netip.Addr)) { count(add, "10.1.0.0", 6000, 1) }, 7},
		{"every second one", func(add func(netip.Addr)) { count(add, "10.1.0.0", 100, 2) }, 100},
		{"IPv6", func(add func(netip.Addr)) { count(add, "2001:db8::", 8, 1) }, 1},
		{"both, and one twice", func(add func(netip.Addr)) {
			count(add, "10.0.0.1", 1, 1)
			count(add, "::a00:1", 1, 1)
			count(add, "10.0.0.1", 1, 1)
		}, 2},
		{"neighbours that are no network", func(add func(netip.Addr)) { count(add, "10.0.0.1", 2, 1) }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []netip.Addr
			have := map[netip.Addr]bool{}
			tt.in(func(a netip.Addr) { list, have[a] = append(list, a), true })
			got := cover(list)
			if len(got) != tt.wants {
				t.Errorf("%d networks, want %d: %v", len(got), tt.wants, got[:min(len(got), 10)])
			}
			held := map[netip.Addr]bool{}
			for _, p := range got {
				for a := p.Masked().Addr(); p.Contains(a); a = a.Next() {
					if !have[a] || held[a] {
						t.Fatalf("%v is in %v, and is not to be, or twice", a, p)
					}
					held[a] = true
				}
			}
			if len(held) != len(have) {
				t.Errorf("%d of %d addresses are covered", len(held), len(have))
			}
		})
	}
}

func count(add func(netip.Addr), from string, n, step int) {
	a := netip.MustParseAddr(from)
	for range n {
		add(a)
		for range step {
			a = a.Next()
		}
	}
}

// A network namespace with more addresses than there is room for costs the others nothing.
func TestOneNamespaceFillsTrust(t *testing.T) {
	f := newFixture(t)
	f.kernel.room = 64
	f.host.addresses[2] = nil
	count(func(a netip.Addr) { f.host.addresses[2] = append(f.host.addresses[2], a) }, "198.18.0.0", 6000, 2)
	f.host.start(10, "web", "", 1, 100)
	f.host.start(11, "greedy", "", 2, 200)
	f.host.start(12, "store", "", 3, 300)
	f.must(f.start())
	for _, a := range []string{"192.0.2.1", "10.0.0.1", "10.0.0.3", "127.0.0.1", "198.18.0.0"} {
		if !f.kernel.trusts(a) {
			t.Errorf("%s is not trusted", a)
		}
	}
	if got, want := f.left.all()[leftAddresses], 6000+5-64; got != want {
		t.Errorf("%d networks are left out, want %d", got, want)
	}
	if !strings.Contains(f.text.String(), "namespace=2") {
		t.Errorf("the log does not name it: %s", f.text)
	}
	// It has fewer: there is room for all.
	f.host.addresses[2] = f.host.addresses[2][:10]
	f.must(f.scan())
	if n := f.left.all()[leftAddresses]; n != 0 || f.left.String() != "" || !f.kernel.trusts("198.18.0.18") {
		t.Errorf("%d are left out still: %s", n, f.left)
	}
}

// An address that is not proven to be on this host is trusted of connections within it only, unless
// somebody has said that it is trusted; where the wire is all that there is, not at all.
func TestUnprovenAddress(t *testing.T) {
	f := newFixture(t)
	const foreign = "203.0.113.9"
	f.host.addresses[2] = append(f.host.addresses[2], netip.MustParseAddr(foreign))
	f.host.unproven = map[netip.Addr]bool{netip.MustParseAddr(foreign): true, netip.MustParseAddr("192.0.2.1"): true}
	f.host.start(10, "web", "", 1, 100)
	f.host.start(11, "hostile", "", 2, 200)
	f.must(f.start())
	for _, c := range []struct {
		name         string
		change       func(*config.Config)
		wire, within bool
	}{
		{"default", func(*config.Config) {}, false, true},
		{"named", func(c *config.Config) {
			c.Trust = append(c.Trust, config.Trust{Prefix: netip.MustParsePrefix("203.0.113.0/24")})
		}, true, false},
		{"same_host: off", func(c *config.Config) { c.SameHost = false }, false, false},
	} {
		cfg := config.Default()
		c.change(&cfg)
		f.must(f.reconfigure(cfg))
		if f.kernel.trusts(foreign) != c.wire || f.kernel.near(foreign) != c.within || !f.kernel.trusts("10.0.0.2") || !f.kernel.trusts("192.0.2.1") {
			t.Errorf("%s: %v", c.name, f.kernel.trusted)
		}
	}
}

// One service, or one container, cannot fill the tables that all share.
func TestOneServiceFillsTables(t *testing.T) {
	f := newFixture(t)
	var sockets []uint64
	for i := range uint64(maxServiceSockets + 10) {
		sockets = append(sockets, 1000+i)
	}
	f.host.start(10, "greedy", "", 1, sockets...)
	f.host.start(11, "web", "", 2, 100)
	f.must(f.start())
	if n := len(f.kernel.inodes); n != maxServiceSockets+1 || f.left.all()[leftSockets] != 10 {
		t.Errorf("%d sockets are noted, %v left out", n, f.left)
	}
	f.exits(10)
	f.must(f.scan())
	if n := f.left.all()[leftSockets]; n != 0 || len(f.sockets) != 1 {
		t.Errorf("%d are left out still, %d known", n, len(f.sockets))
	}
	f.did()
	for i := range maxContainerNames + 5 {
		f.host.start(100+i, fmt.Sprint("name", i), "c1", 1)
	}
	f.host.start(90000, "web", "c2", 1)
	f.must(f.scan())
	if n := f.services.in["c1"]; n != maxContainerNames || f.known[90000] == nil {
		t.Errorf("%d services in one container; the other's: %v", n, f.known[90000])
	}
}
