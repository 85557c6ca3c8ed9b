package workloads

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

func newNetwork(t *testing.T, name string) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		servicetest.Refuse(t, "network namespaces need root")
	}
	n, err := NewNetwork(name)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close(), "close") })
	return n
}

// left returns an error if something of a network is still there.
func left(n *Network) error {
	for _, path := range []string{n.Path, filepath.Join("/sys/class/net", n.Link)} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is still there: %v", path, err)
		}
	}
	return nil
}

// received is what Link counted.
func received(t *testing.T, n *Network) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/sys/class/net", n.Link, "statistics/rx_bytes"))
	require.NoError(t, err)
	bytes, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	return bytes
}

func TestTwoNetworks(t *testing.T) {
	a, b := newNetwork(t, "one"), newNetwork(t, "two / ü")
	if a.Host == b.Host || a.Gateway == b.Gateway || a.Link == b.Link || a.Path == b.Path {
		t.Errorf("%+v, %+v", a, b)
	}
	for _, n := range []*Network{a, b} {
		host, gateway := netip.MustParseAddr(n.Host), netip.MustParseAddr(n.Gateway)
		if host != gateway.Next() || !host.IsPrivate() {
			t.Errorf("%+v", n)
		}
		if out, err := ip("-n", n.Name, "-oneline", "link", "show", "lo"); err != nil || !strings.Contains(string(out), "LOOPBACK,UP") {
			t.Errorf("loopback: %s, %v", out, err)
		}
		// No address of IPv6, whose solicitations would be counted.
		if out, err := ip("-n", n.Name, "-6", "address", "show", "dev", "eth0"); err != nil || len(out) > 0 {
			t.Errorf("IPv6: %s, %v", out, err)
		}
	}
	for _, n := range []*Network{a, b} {
		assert.NoError(t, errors.Join(n.Close(), n.Close(), left(n)), "close, twice")
	}
}

func TestNoNetworkWithoutRootOrTools(t *testing.T) {
	assert.ErrorContains(t, mayMakeNetworks(1000), "needs root: run with sudo", "not root")
	defer func(dirs []string) { sbin = dirs }(sbin)
	sbin = nil
	t.Setenv("PATH", t.TempDir())
	assert.ErrorContains(t, mayMakeNetworks(0), `is not installed: try "apt-get install`, "no tools")
}

// What a killed process left goes with the next network that anyone makes.
func TestNetworksOfKilledProcessesAreRemoved(t *testing.T) {
	if os.Getenv("TARE_TEST_NETWORK") != "" {
		n, err := NewNetwork("killed")
		require.NoError(t, err)
		fmt.Printf("made %s %s\n", n.Name, n.Link)
		select {}
	}
	first := newNetwork(t, "first")
	parent := exec.Command(os.Args[0], "-test.run=^TestNetworksOfKilledProcessesAreRemoved$")
	parent.Env = append(os.Environ(), "TARE_TEST_NETWORK=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var stale Network
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscanf(line, "made %s %s", &stale.Name, &stale.Link)
	}
	stale.Path = filepath.Join(netnsDir, stale.Name)
	if left(first) == nil || left(&stale) == nil {
		t.Errorf("networks of processes that run: %v, %v", left(first), left(&stale))
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	require.NoError(t, err, "%q", line)
	newNetwork(t, "second")
	assert.NoError(t, left(&stale))
	if left(first) == nil {
		t.Error("the network of a process that runs was removed")
	}
}

func TestOwnerOfANamespace(t *testing.T) {
	o := owner{pid: 4194304, start: 1 << 60, n: 46655}
	if got, ok := ownerOf(o.namespace("a-b/c")); !ok || got != o {
		t.Errorf("%+v, %v", got, ok)
	}
	if link := o.link(); len(link) > 15 {
		t.Errorf("%q is longer than IFNAMSIZ allows", link)
	}
	for _, name := range []string{"", "x", "tare-1", "tare-1-2-3", "tare-x-2-3-n", "tare-0-1-1-n", "tare-integration-1-2-3"} {
		if o, ok := ownerOf(name); ok {
			t.Errorf("%q: %+v", name, o)
		}
	}
}

// Chains in a network answer there, and what they answer is what Link counts.
func TestChainsInANetwork(t *testing.T) {
	n := newNetwork(t, "chains")
	bin := servicetest.Build(t, "thesis")
	for name, path := range map[string]string{"nginx": "/n/1", "shop": "/item/1"} {
		c := startWith(t, name, Options{Network: n})
		if host, _, _ := net.SplitHostPort(c.Entry); host != n.Host {
			t.Errorf("%s: entry %s", name, c.Entry)
		}
		for _, s := range c.Services {
			if s.Host != n.Host || s.Dependency {
				t.Errorf("%s: %+v", name, s)
			}
			if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", s.PIDs[0])); err != nil || ns == own(t) {
				t.Errorf("%s of %s is in the caller's network: %v", s.Name, name, err)
			}
		}
		if status, body := get(t, c, path); status != 200 {
			t.Errorf("%s: %d %q", name, status, body)
		}
		assert.NoError(t, c.Stop())
	}

	c := startWith(t, "thesis", Options{Network: n, Bin: bin, Path: "/api/large-payload"})
	before := received(t, n)
	const size = 1 << 20
	if status, body := get(t, c, string(c.AppendPath(nil, 1))+"?size="+strconv.Itoa(size)); status != 200 || len(body) != size {
		t.Fatalf("%d, %d bytes", status, len(body))
	}
	// Headers are less than a tenth; nothing else may be sent.
	if got := received(t, n) - before; got < size || got > size+size/10 {
		t.Errorf("Link counted %d bytes", got)
	}
	if loop, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port("thesis"))), time.Second); err == nil {
		_ = loop.Close()
		t.Error("it listens on the caller's loopback")
	}
}

func own(t *testing.T) string {
	t.Helper()
	ns, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	return ns
}

// Spans leave the namespace for a receiver on the gateway; redis is outside.
func TestCounterInANetwork(t *testing.T) {
	n := newNetwork(t, "counter")
	need(t, "counter")
	r := servicetest.NewReceiver(t, n.Gateway)
	c := startWith(t, "counter", Options{Network: n, Bin: servicetest.Build(t, "counter"), Env: map[string]string{
		"ENABLE_OTEL": "1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.URL + "/v1/traces",
	}})
	counter, redis := c.Services[0], c.Services[1]
	if counter.Host != n.Host || counter.Dependency || redis.Host != n.Gateway || !redis.Dependency {
		t.Errorf("%+v", c.Services)
	}
	if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", redis.PIDs[0])); err != nil || ns != own(t) {
		t.Errorf("redis is not in the caller's network: %v", err)
	}
	if pids := c.PIDs(); len(pids) != 1 || pids[0] != counter.PIDs[0] {
		t.Errorf("under test: %v of %+v", pids, c.Services)
	}
	for want := 1; want <= 3; want++ {
		if status, body := get(t, c, string(c.AppendPath(nil, 9))); status != 200 || body != strconv.Itoa(want) {
			t.Errorf("%d %q", status, body)
		}
	}
	require.NoError(t, c.Stop())
	roots := 0
	for _, s := range r.Spans() {
		if s.GetName() == "GET /" {
			roots++
		}
	}
	assert.Equal(t, 3, roots, "spans of requests")
	gone(t, c)
}

// The same port is free in another namespace, and not twice in one.
func TestCommandInANetwork(t *testing.T) {
	n := newNetwork(t, "command")
	blocker, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	defer func() { _ = blocker.Close() }()
	port := blocker.Addr().(*net.TCPAddr).Port
	c, err := startCommand(t, page(t, Command{Port: port}), Options{Network: n})
	require.NoError(t, err)
	stopLater(t, c)
	if status, body := get(t, c, "/"); status != http.StatusOK || !strings.HasPrefix(body, "hello from "+n.Host) {
		t.Errorf("%d %q", status, body)
	}
	if _, err := startCommand(t, page(t, Command{Port: port}), Options{Network: n}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("port %d is in use by python3", port)) {
		t.Errorf("twice: %v", err)
	}
	// Nothing but the laboratory's side can be reached.
	argv, err := n.command([]string{"cat", "/proc/self/net/route"})
	require.NoError(t, err)
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if routes := strings.Count(string(out), "\n") - 1; err != nil || routes != 1 {
		t.Errorf("%d routes: %s, %v", routes, out, err)
	}
}
