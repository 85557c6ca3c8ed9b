package discover

import (
	"os"
	"path"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// In a container /proc shows paths of control groups as they are seen from its own: "/../../x".
// Rules and units are about the host's.

// cgroupNamespace is the host's path of the control group that they are seen from; "" where
// that is the root, or cannot be found out.
var cgroupNamespace = sync.OnceValue(func() string { return namespaceRoot("/proc/1/ns/cgroup") })

// namespaceRoot is the root of this process' cgroup namespace as it is seen from another one.
func namespaceRoot(from string) string {
	seen, err := ownCgroup()
	if err != nil {
		return ""
	}
	target, err := os.Open(from) //nolint:gosec // of the first process
	if err != nil {
		return ""
	}
	defer func() { _ = target.Close() }() // only a handle
	there := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		if unix.Setns(int(target.Fd()), unix.CLONE_NEWCGROUP) != nil {
			there <- ""
			return
		}
		whole, err := ownCgroup()
		if err != nil {
			whole = ""
		}
		there <- whole
	}()
	root, ok := strings.CutSuffix(<-there, strings.TrimSuffix(seen, "/"))
	if !ok || root == "/" {
		return ""
	}
	return root
}

func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/thread-self/cgroup")
	return parseCgroup(string(text)), err
}

// below is a path that is seen from a control group, as the host has it.
func below(root, seen string) string {
	if root == "" || seen == "" {
		return seen
	}
	return path.Join(root, seen)
}
