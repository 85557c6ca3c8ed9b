package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNoCgroup2 means that no cgroup v2 tree is mounted; sock_ops programs
// attach to one.
var ErrNoCgroup2 = errors.New("no cgroup v2 tree is mounted: mount -t cgroup2 none /sys/fs/cgroup/unified")

// CgroupRoot finds where the cgroup v2 tree is mounted, alone or beside v1.
func CgroupRoot() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the cgroup v2 mount: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// proc(5): id parent major:minor root mountpoint options… - type source …
		mount, kind, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if ok && strings.HasPrefix(kind, "cgroup2 ") && len(fields) > 4 && fields[3] == "/" {
			return fields[4], nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("find the cgroup v2 mount: %w", err)
	}
	return "", ErrNoCgroup2
}
