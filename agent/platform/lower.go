package platform

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// refused are system calls that an agent which traces has no use for, and that whoever
// found a way into it would like: to run programs, to write into other processes, to
// change the kernel, the file systems, the clock, or who it is.
var refused = []string{
	"execve", "execveat",
	"ptrace", "process_vm_writev", "process_madvise", "kcmp",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
	"mount", "umount2", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
	"pivot_root", "chroot", "unshare", "swapon", "swapoff", "quotactl", "quotactl_fd", "acct",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "syslog", "vhangup",
	"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
	"chown", "lchown", "fchown", "fchownat", "mknod", "mknodat", "open_by_handle_at",
	"add_key", "request_key", "keyctl", "userfaultfd", "io_uring_setup", "iopl", "ioperm", "personality",
}

// Lower gives up for good, in all threads, what an agent that has loaded its programs does
// not need: capabilities, new privileges, system calls. Programs can be run with execs only:
// what logs in to a cluster may be one.
func Lower(execs bool) error {
	// First: a filter needs either this or CAP_SYS_ADMIN.
	if _, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	var keep [2]uint32
	for _, w := range wanted {
		if !w.start {
			keep[w.bit/32] |= 1 << (w.bit % 32)
		}
	}
	for i := range have {
		have[i].Permitted &= keep[i]
		have[i].Effective &= keep[i]
		have[i].Inheritable &= keep[i]
	}
	if _, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&have[0])), 0); errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	return filter(execs)
}

func filter(execs bool) error {
	var names []string
	for _, name := range refused {
		if execs && strings.HasPrefix(name, "execve") {
			continue
		}
		one := policy(name)
		if _, err := one.Assemble(); err == nil { // this architecture has it
			names = append(names, name)
		}
	}
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: policy(names...)})
	if err != nil && !(errors.Is(err, unix.EPERM) && filtered()) { // a list that allows no other is in force: the units'
		return fmt.Errorf("refuse system calls: %w", err)
	}
	return nil
}

// filtered reports whether this process's system calls are filtered already.
func filtered() bool {
	text, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(text), "\nSeccomp:\t2\n")
}

func policy(names ...string) seccomp.Policy {
	return seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{{Names: names, Action: seccomp.ActionErrno}}}
}
