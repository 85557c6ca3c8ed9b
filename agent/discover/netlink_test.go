package discover

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeDevices is a /sys/class/net with these files; a name that ends with / is a directory.
func fakeDevices(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if name[len(name)-1] == '/' {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLeadsHere(t *testing.T) {
	sys := fakeDevices(t, map[string]string{
		"eth0/device/": "", "eth0/type": "1\n", "bond0/lower_eth0/": "", "vlan7/lower_bond0/": "", "vlan8/lower_br0/": "",
		"br0/bridge/": "", "br0/lower_eth0/": "", "br0/lower_veth1/": "",
		"docker0/bridge/": "", "docker0/lower_veth1/": "", "virbr0/bridge/": "", "virbr0/lower_tap0/": "", "empty/bridge/": "",
		"veth1/uevent": "INTERFACE=veth1\n", "veth1/type": "1\n", "tap0/tun_flags": "0x1002\n", "tun0/tun_flags": "0x1001\n", "ppp0/type": "512\n", "ipip0/type": "768\n",
		"flannel.1/uevent": "DEVTYPE=vxlan\nINTERFACE=flannel.1\n", "wg0/uevent": "DEVTYPE=wireguard\n",
	})
	for name, want := range map[string]bool{
		"eth0": false, "bond0": false, "vlan7": false, "flannel.1": false, "wg0": false, "tap0": false, "tun0": false, "ppp0": false, "ipip0": false,
		"br0": false, "vlan8": false, "virbr0": false, "docker0": true, "empty": true, "veth1": true, "gone": false, "": false,
	} {
		if got := (device{name: name, peer: noNamespace}).leadsHere(sys, 7); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for peer, want := range map[int32]bool{7: true, 8: false} { // where the address is, and elsewhere
		if got := (device{name: "veth1", peer: peer}).leadsHere(sys, 7); got != want {
			t.Errorf("veth1 to %d: %v", peer, got)
		}
	}
}

// What the kernel says of routes, in a network namespace with routes of the test's own.
func TestRoute(t *testing.T) {
	done, cannot := make(chan struct{}), ""
	go func() { // its thread, and so the namespace, ends with it
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			cannot = "no network namespace: " + err.Error()
			return
		}
		for _, args := range [][]string{
			{"link", "set", "lo", "up"}, {"link", "add", "dev7", "type", "veth", "peer", "name", "dev8"},
			{"link", "set", "dev7", "up"}, {"link", "set", "dev8", "up"},
			{"address", "add", "192.0.2.1/24", "dev", "dev7"}, {"address", "add", "2001:db8::1/64", "dev", "dev7", "nodad"},
			{"route", "add", "198.51.100.0/24", "via", "192.0.2.9"},
		} {
			if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
				cannot = fmt.Sprintf("ip %v: %v\n%s", args, err, out)
				return
			}
		}
		l, err := openNetlink(unix.NETLINK_ROUTE)
		if err != nil {
			t.Error(err)
			return
		}
		defer l.close()
		for address, want := range map[string]struct {
			device  string
			local   bool
			gateway bool
			err     bool
		}{
			"192.0.2.7": {device: "dev7"}, "198.51.100.3": {device: "dev7", gateway: true}, "2001:db8::7": {device: "dev7"},
			"192.0.2.1": {local: true}, "127.0.0.1": {local: true}, "::1": {local: true}, "203.0.113.1": {err: true},
		} {
			h, err := l.route(netip.MustParseAddr(address))
			name := l.device(h.device).name
			if (err != nil) != want.err || h.local != want.local || h.gateway != want.gateway || want.device != "" && name != want.device {
				t.Errorf("%s: %s, %+v, %v; want %+v", address, name, h, err, want)
			}
		}
		found, err := ownAddresses()
		for _, a := range []string{"127.0.0.1", "192.0.2.1", "2001:db8::1"} {
			ok := false
			for _, f := range found {
				ok = ok || f == netip.MustParseAddr(a)
			}
			if !ok || err != nil {
				t.Errorf("%s is not among the addresses %v; %v", a, found, err)
			}
		}
	}()
	if <-done; cannot != "" {
		t.Skip(cannot)
	}
}
