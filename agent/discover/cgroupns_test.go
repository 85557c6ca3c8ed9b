package discover

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/platform"
)

func TestBelow(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "/a/b", "/a/b"},
		{"/kubepods/pod1/agent", "/", "/kubepods/pod1/agent"},
		{"/kubepods/pod1/agent", "/../../pod2/web", "/kubepods/pod2/web"},
		{"/kubepods/pod1/agent", "/../../../system.slice/x.service", "/system.slice/x.service"},
		{"/kubepods", "", ""},
	} {
		if got := below(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q seen from %q: %q, want %q", tt[1], tt[0], got, tt[2])
		}
	}
}

// In a cgroup namespace of its own, as a pod has one, the process finds the root of the hierarchy, and its own path below it:
// through what is mounted, and where that is only its own part, through the first process.
func TestOwnCgroupNamespace(t *testing.T) {
	const in = "TARE_TEST_CGROUP"
	if own := os.Getenv(in); own != "" {
		mount, err := platform.CgroupV2()
		if _, e := os.Stat(filepath.Join(mount, own)); err != nil || e != nil {
			t.Errorf("the hierarchy is at %q (%v), and %s is not in it", mount, err, own)
		}
		if got := cgroupNamespace(); got != own {
			t.Errorf("the namespace's root is %q, want %q", got, own)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	mount, err := platform.CgroupV2()
	if err != nil {
		t.Skip(err)
	}
	own := "/" + strings.ToLower(t.Name()) + "/container"
	dir := filepath.Join(mount, own)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as others are
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []string{dir, filepath.Dir(dir)} {
			if err := os.Remove(d); err != nil {
				t.Error(err)
			}
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string]string{
		"the host's is mounted, too": "mount -t tmpfs tmpfs /mnt; mkdir /mnt/own; mount -t cgroup2 cgroup2 /mnt/own",
		"only its own part":          "umount -l " + mount + "; mount -t tmpfs tmpfs /mnt; mkdir /mnt/own; mount -t cgroup2 cgroup2 /mnt/own",
	} {
		t.Run(name, func(t *testing.T) {
			// The first process of a namespace of processes is outside of the container, as with hostPID.
			container := "set -e; echo $$ >" + filepath.Join(dir, "cgroup.procs") + `; exec unshare --cgroup --mount sh -c 'set -e; ` + more + `; exec "$@"' sh "$@"`
			first := `sh -c "$0" sh "$@"; exit $?`
			cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", first, container, //nolint:gosec // itself
				self, "-test.run=^TestOwnCgroupNamespace$", "-test.v")
			cmd.Env = append(os.Environ(), in+"="+own)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
