package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoCgroupV2 means that no cgroup v2 hierarchy is mounted.
var ErrNoCgroupV2 = fmt.Errorf("%w: no cgroup v2 hierarchy is mounted", errAbsent)

// CgroupV2 is where the cgroup v2 hierarchy is mounted, nearest to its root.
func CgroupV2() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return cgroupMount(string(text))
}

// cgroupMount reads mountinfo: "31 23 0:28 ROOT MOUNTPOINT options optional… - TYPE source options".
// Of several mounts, the one that shows most of the hierarchy is wanted: that
// with the shortest root.
func cgroupMount(mountinfo string) (string, error) {
	best, bestRoot := "", ""
	for line := range strings.Lines(mountinfo) {
		mount, source, ok := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		kind := strings.Fields(source)
		if !ok || len(fields) < 6 || len(kind) < 1 || kind[0] != "cgroup2" {
			continue
		}
		if root := fields[3]; best == "" || len(root) < len(bestRoot) {
			best, bestRoot = unescapeOctal(fields[4]), root
		}
	}
	if best == "" {
		return "", ErrNoCgroupV2
	}
	return best, nil
}

// unescapeOctal undoes mountinfo's \040 for blanks and the like.
func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && len(s) >= i+4 {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
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

func tryBTF() error {
	f, err := os.Open("/sys/kernel/btf/vmlinux")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errAbsent, err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	magic := make([]byte, 2)
	if _, err := f.Read(magic); err != nil {
		return err
	}
	if !bytes.Equal(magic, []byte{0x9f, 0xeb}) && !bytes.Equal(magic, []byte{0xeb, 0x9f}) {
		return fmt.Errorf("/sys/kernel/btf/vmlinux begins with %x", magic)
	}
	return nil
}

// tryPMU asks for a dynamic event source: kprobe or uprobe.
func tryPMU(name string) error {
	if _, err := os.Stat("/sys/bus/event_source/devices/" + name); err == nil {
		return nil
	}
	for _, tracefs := range []string{"/sys/kernel/tracing/", "/sys/kernel/debug/tracing/"} {
		if err := unix.Access(tracefs+name+"_events", unix.W_OK); err == nil || errors.Is(err, unix.EACCES) {
			return err
		}
	}
	return fmt.Errorf("%w: the kernel has no %s events", errAbsent, name)
}
