package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// node is a machine of the cluster: a network namespace with an address in the cluster's network, and pods behind it.
type node struct {
	t       *testing.T
	name    string
	netns   string
	address string
	number  int
	pods    int
}

// newNode makes 198.51.100.1N, whose pods are 10.244.N.0/24.
func newNode(t *testing.T, number int) *node {
	t.Helper()
	n := &node{t: t, name: fmt.Sprint("node", number), netns: fmt.Sprint("node", number), address: fmt.Sprint("198.51.100.1", number), number: number}
	n.netnsAdd(n.netns)
	link := fmt.Sprint("to-node", number)
	command(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", n.netns)
	t.Cleanup(func() { command(t, "ip", "link", "delete", link) }) // the namespace's end would do it later
	command(t, "ip", "link", "set", link, "master", "cluster", "up")
	for _, c := range []string{
		"address add " + n.address + "/24 dev eth0", "link set eth0 up", "route add default via " + controlPlane,
		"link add cni0 type bridge", "address add " + n.gateway() + "/24 dev cni0", "link set cni0 up",
	} {
		command(t, append([]string{"ip", "-n", n.netns}, strings.Fields(c)...)...)
	}
	// What is translated must pass by the node's own rules, also from pod to pod.
	command(t, "ip", "netns", "exec", n.netns, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	command(t, "ip", "netns", "exec", n.netns, "nft", `add table ip kube-proxy
add chain ip kube-proxy services
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority dstnat; }
add chain ip kube-proxy nat-output { type nat hook output priority -100; }
add rule ip kube-proxy nat-prerouting jump services
add rule ip kube-proxy nat-output jump services`)
	command(t, "ip", "route", "replace", n.network(), "via", n.address)
	return n
}

func (n *node) netnsAdd(name string) {
	n.t.Helper()
	command(n.t, "ip", "netns", "add", name)
	n.t.Cleanup(func() { command(n.t, "ip", "netns", "delete", name) })
	command(n.t, "ip", "-n", name, "link", "set", "lo", "up")
}

// netnsFile is for nsenter: ip netns exec would hide the mounts below /sys.
func netnsFile(name string) string { return "/run/netns/" + name }

func (n *node) gateway() string { return fmt.Sprintf("10.244.%d.1", n.number) }
func (n *node) network() string { return fmt.Sprintf("10.244.%d.0/24", n.number) }

// route makes another node's pods reachable.
func (n *node) route(other *node) {
	n.t.Helper()
	command(n.t, "ip", "-n", n.netns, "route", "add", other.network(), "via", other.address)
}

// translate is what kube-proxy does for a service's address.
func (n *node) translate(address string, port int32, to string) {
	n.t.Helper()
	command(n.t, "ip", "netns", "exec", n.netns, "nft", fmt.Sprintf("add rule ip kube-proxy services ip daddr %s tcp dport %d dnat to %s", address, port, to))
}

// container is where a pod's processes run.
type container struct {
	id, address, netns, cgroup string
}

// newContainer makes the network namespace of a pod and the control group that containerd makes for a container, by the driver
// of systemd.
func (n *node) newContainer(uid string) container {
	n.t.Helper()
	n.pods++
	c := container{
		id:      strings.Repeat(fmt.Sprintf("%02x%02x", n.number, n.pods), 16),
		address: fmt.Sprintf("10.244.%d.%d", n.number, 10+n.pods),
		netns:   fmt.Sprintf("pod%d-%d", n.number, n.pods),
	}
	n.netnsAdd(c.netns)
	link := "veth-" + c.netns
	command(n.t, "ip", "-n", n.netns, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", c.netns)
	command(n.t, "ip", "-n", n.netns, "link", "set", link, "master", "cni0", "up")
	for _, cmd := range []string{"address add " + c.address + "/24 dev eth0", "link set eth0 up", "route add default via " + n.gateway()} {
		command(n.t, append([]string{"ip", "-n", c.netns}, strings.Fields(cmd)...)...)
	}
	c.cgroup = newCgroup(n.t, uid, c.id)
	return c
}

func newCgroup(t *testing.T, uid, id string) string {
	t.Helper()
	path := t.Name() + ".slice/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope"
	root := cgroupRoot(t)
	if err := os.MkdirAll(filepath.Join(root, path), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after its processes have ended
		for at := path; at != "."; at = filepath.Dir(at) {
			_ = os.Remove(filepath.Join(root, at)) // another container's may be in it
		}
	})
	return path
}

// cgroupRoot is where version 2 of control groups is mounted.
func cgroupRoot(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	t.Fatal("no cgroup2 is mounted")
	return ""
}

// run starts a program in the container.
func (c container) run(t *testing.T, env []string, argv ...string) *child {
	t.Helper()
	script := `echo $$ >"$1" && shift && net=$1 && shift && exec nsenter --net="$net" "$@"`
	return start(t, env, append([]string{"sh", "-c", script, "sh", filepath.Join(cgroupRoot(t), c.cgroup, "cgroup.procs"), netnsFile(c.netns)}, argv...)...)
}
