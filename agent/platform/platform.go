// Package platform tells facts about this machine and this process that decide
// whether kernel programs can be loaded: the kernel, its lockdown mode, its
// cgroup hierarchy, the privileges at hand.
//
// It tries nothing and decides nothing: whether the agent works here is known by
// loading its programs, which is package kernel's business.
package platform

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Facts are what this host tells of itself.
type Facts struct {
	Kernel       string            `json:"kernel"` // release, for information
	Machine      string            `json:"machine"`
	Lockdown     string            `json:"lockdown"` // none, integrity, confidentiality, unknown
	BTF          bool              `json:"btf"`      // the kernel describes its types
	CgroupV2     string            `json:"cgroup_v2"`
	Sysctls      map[string]string `json:"sysctls"`
	Capabilities []Capability      `json:"capabilities"`
}

// Read reads the facts.
func Read() Facts {
	f := Facts{Lockdown: lockdown(), Sysctls: map[string]string{}, Capabilities: capabilities()}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		f.Kernel = unix.ByteSliceToString(uts.Release[:])
		f.Machine = unix.ByteSliceToString(uts.Machine[:])
	}
	for _, name := range []string{"kernel/unprivileged_bpf_disabled", "kernel/bpf_stats_enabled", "net/core/bpf_jit_enable"} {
		text, err := os.ReadFile("/proc/sys/" + name)
		value := strings.TrimSpace(string(text))
		if err != nil {
			value = "unknown"
		}
		f.Sysctls[strings.ReplaceAll(name, "/", ".")] = value
	}
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	f.BTF = err == nil
	f.CgroupV2, _ = CgroupV2() // "": not mounted
	return f
}

// ErrPIDNamespace means that processes have other numbers here than in the kernel.
var ErrPIDNamespace = errors.New("this container has process ids of its own, by which no service is found: give it the host's (hostPID: true; podman run --pid=host)")

// initialPIDs is the inode of the first pid namespace, the same on all hosts
// (PROC_PID_INIT_INO, include/linux/proc_ns.h, since Linux 3.8).
const initialPIDs = "pid:[4026531836]"

// HostPIDs returns ErrPIDNamespace unless this process sees the host's processes by
// the numbers that kernel programs have.
func HostPIDs() error {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns != initialPIDs {
		return ErrPIDNamespace
	}
	return nil
}

// lockdown is the kernel's lockdown mode. Without securityfs only the boot
// parameter can tell, and that it is absent proves nothing.
func lockdown() string {
	if text, err := os.ReadFile("/sys/kernel/security/lockdown"); err == nil {
		if mode := bracketedWord(string(text)); mode != "" {
			return mode
		}
	}
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "unknown"
	}
	for word := range strings.FieldsSeq(string(text)) {
		if mode, ok := strings.CutPrefix(word, "lockdown="); ok {
			return mode
		}
	}
	return "unknown"
}

// bracketedWord finds "integrity" in "none [integrity] confidentiality".
func bracketedWord(text string) string {
	_, rest, ok := strings.Cut(text, "[")
	word, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return ""
	}
	return word
}
