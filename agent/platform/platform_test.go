package platform

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	f := Read()
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	if f.Kernel != unix.ByteSliceToString(uts.Release[:]) || f.Machine == "" || f.Lockdown == "" || len(f.Sysctls) != 3 {
		t.Errorf("%+v", f)
	}
	if root, err := CgroupV2(); (err == nil) != (f.CgroupV2 != "") || root != f.CgroupV2 {
		t.Errorf("cgroup v2 at %q, %v, and not %q", root, err, f.CgroupV2)
	}
}

// In a container with process ids of its own, which needs root to make.
func TestHostPIDs(t *testing.T) {
	const inside = "TARE_TEST_OWN_PIDS"
	err := HostPIDs()
	if os.Getenv(inside) != "" {
		if !errors.Is(err, ErrPIDNamespace) {
			t.Errorf("%v", err)
		}
		return
	}
	if os.Geteuid() != 0 || err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI must run this test as root, outside of containers: %v", err)
		}
		t.Skip("needs root, and the host's process ids")
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", os.Args[0], "-test.run=^TestHostPIDs$") //nolint:gosec // this test
	cmd.Env = append(os.Environ(), inside+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPrivileged(t *testing.T) {
	for _, tt := range []struct {
		has  []string
		want bool
	}{
		{nil, false},
		{[]string{"CAP_SYS_ADMIN"}, true},
		{[]string{"CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"}, true},
		{[]string{"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"}, false},
	} {
		var list []Capability
		for _, name := range tt.has {
			list = append(list, Capability{Name: name, Effective: true})
		}
		if got := privileged(list); got != tt.want {
			t.Errorf("%v: %v", tt.has, got)
		}
	}
}

func TestMissing(t *testing.T) {
	all := []string{"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
	for _, tt := range []struct{ without, want string }{
		{"", ""}, {"CAP_SYS_PTRACE", "CAP_SYS_PTRACE"}, {"CAP_DAC_READ_SEARCH", "CAP_DAC_READ_SEARCH"}, {"CAP_SYS_ADMIN", "CAP_BPF"},
	} {
		var list []Capability
		for _, name := range all {
			list = append(list, Capability{Name: name, Effective: name != tt.without})
		}
		got := missing(list)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], tt.want+" (")) {
			t.Errorf("without %s: %q", tt.without, got)
		}
	}
}
