package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// machine is this one as a new user has it: with all ports free, with files below /etc,
// /var/lib and /tmp that are its own, and with no other network than loopback.
type machine struct {
	t    *testing.T
	pid  string // of the process whose namespaces these are
	path string
	// Of documents: the commands that were run, and where make's targets are.
	ran      map[string]bool
	makefile string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	need(t, "unshare", "nsenter", "ip", "bash")
	own := t.TempDir()
	// Below own, which is not hidden by what is mounted: the two directories of /etc's overlay.
	script := `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/sys"
# Devices of this network namespace are in a sysfs that is mounted in it, and the rest is where it was.
mount --rbind /sys "$1/sys"
mount -t sysfs sysfs /sys
for d in fs/cgroup fs/bpf kernel/tracing kernel/debug; do
	if mountpoint -q "$1/sys/$d"; then mount --rbind "$1/sys/$d" "/sys/$d"; fi
done
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /tmp
mkdir /tmp/tools
ip link set lo up
echo "127.0.0.1 collector" >>/etc/hosts
echo ready
exec sleep infinity`
	c := testkit.Spawn(t, "the machine", os.Interrupt, time.Minute, os.Environ(), "unshare", "--net", "--mount", "bash", "-c", script, "bash", own)
	c.End = os.Kill
	t.Cleanup(c.Kill) // before stop would want it to end well
	c.Await(time.Minute, "the machine is ready", func() bool { return strings.Contains(c.Log.String(), "ready") })
	return &machine{t: t, pid: itoa(c.PID()), path: bin + ":" + os.Getenv("PATH"), ran: map[string]bool{}}
}

// argv runs a command there.
func (m *machine) argv(argv ...string) []string {
	return append([]string{"nsenter", "--target", m.pid, "--net", "--mount", "--wd=" + absolute(".."), "--"}, argv...)
}

// env is that of a user who has set nothing.
func (m *machine) env() []string {
	env := []string{"PATH=" + m.path, "HOME=" + os.Getenv("HOME"), "TMPDIR=/tmp"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN", "GONOSUMDB", "GOSUMDB"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// start runs a program there until the test ends.
func (m *machine) start(env []string, argv ...string) *testkit.Child {
	m.t.Helper()
	return testkit.Spawn(m.t, strings.Join(argv, " "), os.Interrupt, time.Minute, append(m.env(), env...), m.argv(argv...)...)
}

// serve runs a program there that no signal ends well.
func (m *machine) serve(env []string, argv ...string) *testkit.Child {
	m.t.Helper()
	c := m.start(env, argv...)
	m.t.Cleanup(c.Kill)
	return c
}

// file makes a file there.
func (m *machine) file(name, text string) string {
	m.t.Helper()
	argv := m.argv("tee", name)
	cmd := exec.CommandContext(m.t.Context(), argv[0], argv[1:]...) //nolint:gosec // the test's own
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v: %s", name, err, out)
	}
	return name
}

// get asks a server there.
func (m *machine) get(url string) (string, error) {
	return m.output("python3", "-c", "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())", url)
}

// output runs a program there to its end.
func (m *machine) output(argv ...string) (string, error) {
	argv = m.argv(argv...)
	cmd := exec.CommandContext(m.t.Context(), argv[0], argv[1:]...) //nolint:gosec // the test's own
	cmd.Env = m.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}
