package platform

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrNoCgroupV2 means that no cgroup v2 hierarchy is mounted.
var ErrNoCgroupV2 = errors.New("no cgroup v2 hierarchy is mounted")

// CgroupV2 is where the cgroup v2 hierarchy is mounted, nearest to its root. A container sees
// only its own part, unless the host's is mounted in it; where it sees the host's processes,
// the root is reached through the first of them.
func CgroupV2() (string, error) {
	own, err := mounted("")
	if err == nil && isRoot(own) {
		return own, nil
	}
	const first = "/proc/1"
	if through, e := mounted(first); e == nil && isRoot(through) {
		return through, nil
	}
	return own, err
}

// mounted is where a process has the hierarchy mounted, as it is reached from here; "" is this one.
func mounted(process string) (string, error) {
	from, root := "/proc/self", ""
	if process != "" {
		from, root = process, process+"/root"
	}
	text, err := os.ReadFile(from + "/mountinfo")
	if err != nil {
		return "", err
	}
	at, err := cgroupMount(string(text))
	if err != nil {
		return "", err
	}
	return root + at, nil
}

// isRoot reports whether a control group is the root of its hierarchy, which alone has no events.
func isRoot(cgroup string) bool {
	_, err := os.Stat(cgroup + "/cgroup.controllers")
	_, events := os.Stat(cgroup + "/cgroup.events")
	return err == nil && errors.Is(events, fs.ErrNotExist)
}

func cgroupMount(mountinfo string) (string, error) {
	at, _ := hierarchy(mountinfo, "cgroup2", "")
	if at == "" {
		return "", ErrNoCgroupV2
	}
	return at, nil
}

// hierarchy finds in mountinfo where a cgroup hierarchy of a type, and with a controller ("": any), is
// mounted, and what of it is there: "31 23 0:28 ROOT MOUNTPOINT options optional… - TYPE source options".
// Of several mounts, the one that shows most of the hierarchy is wanted: that
// with the root that is least deep. In a cgroup namespace of its own a process sees what is
// above that as "/..".
func hierarchy(mountinfo, kind, controller string) (at, root string) {
	least := 0
	for line := range strings.Lines(mountinfo) {
		mount, source, ok := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		of := strings.Fields(source)
		if !ok || len(fields) < 6 || len(of) < 1 || of[0] != kind {
			continue
		}
		if controller != "" && !slices.Contains(strings.Split(of[len(of)-1], ","), controller) {
			continue
		}
		if deep := depth(fields[3]); at == "" || deep < least {
			at, root, least = unescapeOctal(fields[4]), unescapeOctal(fields[3]), deep
		}
	}
	return at, root
}

// depth is how far below the cgroup namespace's root a path is, or above: "/../.." is -2.
func depth(root string) int {
	deep := 0
	for part := range strings.SplitSeq(root, "/") {
		switch part {
		case "":
		case "..":
			deep--
		default:
			deep++
		}
	}
	return deep
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
