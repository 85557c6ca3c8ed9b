package platform

import (
	"errors"
	"testing"
)

func TestCgroupMount(t *testing.T) {
	for _, tt := range []struct{ name, mountinfo, want string }{
		{"hybrid", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"optional fields", "41 31 0:38 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 none rw\n", "/sys/fs/cgroup"},
		{"part first", "1 2 0:3 /a/b /x rw - cgroup2 c rw\n1 2 0:3 / /y rw - cgroup2 c rw\n", "/y"},
		{"a pod's own, and the host's", "1 2 0:3 / /x rw - cgroup2 c rw\n1 2 0:3 /../../.. /host rw - cgroup2 c rw\n1 2 0:3 /.. /y rw - cgroup2 c rw\n", "/host"},
		{"blank", `1 2 0:3 / /a\040b rw - cgroup2 c rw` + "\n", "/a b"},
		{"none", "1 2 0:3 / /sys/fs/cgroup rw - cgroup c rw\n", ""},
		{"overlay of that name", "1 2 0:3 / /cgroup2 rw - ext4 cgroup2 rw\n", ""},
	} {
		got, err := cgroupMount(tt.mountinfo)
		if got != tt.want || (tt.want == "") != errors.Is(err, ErrNoCgroupV2) {
			t.Errorf("%s: %q %v", tt.name, got, err)
		}
	}
}

func TestBracketedWord(t *testing.T) {
	for text, want := range map[string]string{
		"none [integrity] confidentiality\n": "integrity",
		"[none] integrity confidentiality":   "none",
		"none":                               "",
		"[none":                              "",
	} {
		if got := bracketedWord(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzCgroupMount(f *testing.F) {
	f.Add(`1 2 0:3 / /a\04 rw - cgroup2 c rw`)
	f.Add("- cgroup2")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := cgroupMount(text); (got == "") == (err == nil) {
			t.Errorf("%q: %q %v", text, got, err)
		}
	})
}
