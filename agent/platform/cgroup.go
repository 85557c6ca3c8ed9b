package platform

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// ErrNoCgroupV2 means that no cgroup v2 hierarchy is mounted.
var ErrNoCgroupV2 = errors.New("no cgroup v2 hierarchy is mounted")

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
