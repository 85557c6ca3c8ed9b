package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuGroup is a control group whose processes get a share of one CPU.
type cpuGroup struct{ dir string }

// newCPUGroup makes one, of version 2 or 1. It is removed at the end of the
// test, after what was started after it.
func newCPUGroup(t *testing.T, share float64) cpuGroup {
	t.Helper()
	const period = 100_000 // µs, the kernel's default
	quota := itoa(int(share * period))
	version2 := map[string]string{"cpu.max": quota + " " + itoa(period)}
	version1 := map[string]string{"cpu.cfs_period_us": itoa(period), "cpu.cfs_quota_us": quota}
	var failed error
	for _, c := range []struct {
		root  string
		files map[string]string
	}{
		{"/sys/fs/cgroup", version2}, {"/sys/fs/cgroup/unified", version2},
		{"/sys/fs/cgroup/cpu", version1}, {"/sys/fs/cgroup/cpu,cpuacct", version1},
	} {
		g := cpuGroup{filepath.Join(c.root, fmt.Sprintf("tare-test-%d-%d", os.Getpid(), time.Now().UnixNano()))}
		if err := os.Mkdir(g.dir, 0o755); err != nil { //nolint:gosec // as the kernel makes them
			failed = errors.Join(failed, err)
			continue
		}
		err := g.set(c.files)
		if err == nil {
			t.Cleanup(func() { g.remove(t) })
			return g
		}
		failed = errors.Join(failed, err, os.Remove(g.dir))
	}
	refuse(t, "needs a control group that limits CPU: %v", failed)
	return cpuGroup{}
}

func (g cpuGroup) set(files map[string]string) error {
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

func (g cpuGroup) add(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(itoa(pid)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// throttled is how many periods its processes had less CPU than they wanted.
func (g cpuGroup) throttled(t *testing.T) (periods int) {
	t.Helper()
	for line := range strings.Lines(slurp(t, filepath.Join(g.dir, "cpu.stat"))) {
		if _, err := fmt.Sscanf(line, "nr_throttled %d", &periods); err == nil {
			return periods
		}
	}
	t.Fatal("cpu.stat does not tell nr_throttled")
	return 0
}

// remove waits for the kernel to let go of processes that have ended.
func (g cpuGroup) remove(t *testing.T) {
	var err error
	for range 100 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		if !errors.Is(err, syscall.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error(err)
}
