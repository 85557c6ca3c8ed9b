package workloads

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range texts {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func TestFreeSubnetOverlapsNothing(t *testing.T) {
	for _, c := range []struct {
		taken []netip.Prefix
		start uint32
		want  string
	}{
		{nil, 0, "10.224.0.0/30"},
		{nil, 1, "10.224.0.4/30"},
		{nil, 1<<19 - 1, "10.255.255.252/30"},
		{nil, 1 << 19, "10.224.0.0/30"},
		{nil, 1<<32 - 1, "10.255.255.252/30"},
		{prefixes("10.224.0.0/16"), 0, "10.225.0.0/30"},
		{prefixes("10.224.0.1/32", "10.224.0.6/31"), 0, "10.224.0.8/30"},
		{prefixes("10.255.255.252/30"), 1<<19 - 1, "10.224.0.0/30"},
		{prefixes("10.0.0.0/8"), 0, "172.24.0.0/30"},
		{prefixes("10.224.0.0/12", "10.240.0.0/12"), 0, "172.24.0.0/30"},
		{prefixes("10.0.0.0/8", "172.16.0.0/12"), 0, "192.168.128.0/30"},
		{prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"), 0, "198.18.0.0/30"},
	} {
		got, err := freeSubnet(c.taken, c.start)
		if err != nil || got.String() != c.want {
			t.Errorf("%v from %d: %v, %v", c.taken, c.start, got, err)
		}
	}
	if got, err := freeSubnet(prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"), 0); err == nil {
		t.Errorf("all is taken: %v", got)
	}
}

func TestParseRoutes(t *testing.T) {
	got, err := parseRoutes([]byte(`[{"dst":"default","gateway":"192.0.2.1","dev":"eth0"},
		{"dst":"0.0.0.0/1","dev":"tun0"},{"dst":"128.0.0.0/1","dev":"tun0"},
		{"dst":"192.0.2.0/24","dev":"eth0"},{"type":"local","dst":"192.0.2.2","table":"local"},
		{"type":"unreachable","dst":"10.0.0.0/8"},{"dst":"fe80::/64","dev":"eth0"}]`))
	if want := prefixes("192.0.2.0/24", "192.0.2.2/32", "10.0.0.0/8"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	got, err = parseAddresses([]byte(`[{"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8}]},
		{"ifname":"eth1","operstate":"DOWN","addr_info":[{"local":"10.1.2.3","prefixlen":16},{"local":"fe80::1","prefixlen":64}]},{}]`))
	if want := prefixes("127.0.0.0/8", "10.1.0.0/16"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, parse := range []func([]byte) ([]netip.Prefix, error){parseRoutes, parseAddresses} {
		if got, err := parse(nil); err != nil || got != nil {
			t.Errorf("nothing: %v, %v", got, err)
		}
		if _, err := parse([]byte("x")); err == nil {
			t.Error("no JSON: no error")
		}
	}
	if _, err := parseRoutes([]byte(`[{"dst":"here"}]`)); err == nil {
		t.Error("no address: no error")
	}
	if _, err := parseAddresses([]byte(`[{"addr_info":[{"local":"10.1.2.3","prefixlen":33}]}]`)); err == nil {
		t.Error("33 bits: no error")
	}
}

func FuzzParseRoutes(f *testing.F) {
	for _, s := range []string{
		`[{"dst":"default"},{"dst":"10.0.0.0/8"},{"dst":"10.0.0.1"}]`, `[{"dst":"fe80::1%eth0"}]`, `[]`, ``, `[{"dst":"::ffff:10.0.0.1"}]`,
		`[{"addr_info":[{"local":"10.1.2.3","prefixlen":16}]}]`, `[{"addr_info":[{"local":"10.1.2.3","prefixlen":-1}]}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		routes, _ := parseRoutes(b)
		addresses, _ := parseAddresses(b)
		for _, p := range append(routes, addresses...) {
			if !p.IsValid() || !p.Addr().Is4() || p != p.Masked() {
				t.Errorf("%q: %v", b, p)
			}
		}
		if got, err := freeSubnet(append(routes, addresses...), 0); err == nil {
			for _, p := range append(routes, addresses...) {
				assert.False(t, p.Overlaps(got), "%v overlaps %v", got, p)
			}
		}
	})
}
