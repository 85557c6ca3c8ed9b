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

// An address is here if the way to it ends in the very network namespace that has it: what the kernel
// says of both ends of a pair of devices.
func TestHere(t *testing.T) {
	done, cannot := make(chan struct{}), ""
	go func() { // its thread, and so both namespaces, end with it
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
			cannot = "no namespaces: " + err.Error()
			return
		}
		var inside [2]*exec.Cmd // in network namespaces of their own
		for n := range inside {
			inside[n] = exec.Command("unshare", "--net", "sh", "-c", "echo; exec sleep 60")
			begun, err := inside[n].StdoutPipe()
			if err == nil {
				err = inside[n].Start()
			}
			if err != nil {
				cannot = err.Error()
				return
			}
			defer func() { _ = inside[n].Wait() }()
			defer func() { _ = inside[n].Process.Kill() }()
			if _, err := begun.Read(make([]byte, 1)); err != nil {
				cannot = "no network namespace within: " + err.Error()
				return
			}
		}
		for _, argv := range [][]string{
			{"mount", "--make-rprivate", "/"}, {"mount", "-t", "sysfs", "sysfs", "/sys"}, // of this network namespace
			{"ip", "link", "set", "lo", "up"}, {"ip", "link", "add", "dev7", "type", "veth", "peer", "name", "dev8"},
			{"ip", "link", "set", "dev8", "netns", fmt.Sprint(inside[0].Process.Pid)}, {"ip", "link", "set", "dev7", "up"},
			{"ip", "address", "add", "192.0.2.1/24", "dev", "dev7"}, {"ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.9"},
			{"ip", "link", "add", "bridge7", "type", "bridge"}, {"ip", "link", "set", "bridge7", "up"}, {"ip", "route", "add", "203.0.113.0/24", "dev", "bridge7"},
		} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				cannot = fmt.Sprintf("%v: %v\n%s", argv, err, out)
				return
			}
		}
		addresses := []netip.Addr{}
		for _, a := range []string{"127.0.0.1", "192.0.2.1", "192.0.2.7", "198.51.100.3", "203.0.113.4", "fe80::1", "2001:db8::7"} {
			addresses = append(addresses, netip.MustParseAddr(a))
		}
		for n, want := range [2]string{"[127.0.0.1 192.0.2.1 192.0.2.7 203.0.113.4]", "[127.0.0.1 192.0.2.1 203.0.113.4]"} {
			here, err := Here(inside[n].Process.Pid, addresses)
			var proven []netip.Addr
			for _, a := range addresses {
				if here[a] {
					proven = append(proven, a)
				}
			}
			if got := fmt.Sprint(proven); err != nil || got != want {
				t.Errorf("in %d: %s, %v; want %s", n, got, err, want)
			}
		}
		if _, err := Here(1<<22, addresses); !Gone(err) {
			t.Errorf("of a process that has ended: %v", err)
		}
	}()
	if <-done; cannot != "" {
		t.Skip(cannot)
	}
}
