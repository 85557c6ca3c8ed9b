package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// controlGroup is a control group of the test.
type controlGroup struct{ dir string }

// newControlGroup makes one with a controller's files set, of version 2 or 1. It is removed at the
// end of the test, after what was started after it.
func newControlGroup(t *testing.T, controller string, version2, version1 map[string]string) controlGroup {
	t.Helper()
	const mounts = "/sys/fs/cgroup"
	var failed error
	for _, c := range []struct {
		root  string
		files map[string]string
	}{
		{mounts, version2}, {mounts + "/unified", version2},
		{filepath.Join(mounts, controller), version1}, {mounts + "/cpu,cpuacct", version1},
	} {
		g := controlGroup{filepath.Join(c.root, fmt.Sprintf("tare-test-%d-%d", os.Getpid(), time.Now().UnixNano()))}
		err := os.Mkdir(g.dir, 0o755) //nolint:gosec // as the kernel makes them
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if _, there := c.files[controller+".max"]; there {
			_ = controlGroup{c.root}.set(map[string]string{"cgroup.subtree_control": "+" + controller}) // set below says what it lacks
		}
		if err = g.set(c.files); err == nil {
			t.Cleanup(func() { g.remove(t) })
			return g
		}
		failed = errors.Join(failed, err, os.Remove(g.dir))
	}
	refuse(t, "needs a control group that limits %s: %v", controller, failed)
	return controlGroup{}
}

func (g controlGroup) set(files map[string]string) error {
	for name, value := range files {
		path := filepath.Join(g.dir, name)
		// Not made if it is not there: a directory that is not of a control
		// group, or one without the controller.
		if _, err := os.Stat(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (g controlGroup) add(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(itoa(pid)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// remove waits for the kernel to let go of processes that have ended.
func (g controlGroup) remove(t *testing.T) {
	var err error
	testkit.ComesTrue(deadline, func() bool {
		err = os.Remove(g.dir)
		return !errors.Is(err, syscall.EBUSY)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
