package platform

import (
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
