package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// newCPUGroup makes a control group whose processes get a share of one CPU.
func newCPUGroup(t *testing.T, share float64) controlGroup {
	t.Helper()
	const period = 100_000 // µs, the kernel's default
	quota := itoa(int(share * period))
	return newControlGroup(t, "cpu", map[string]string{"cpu.max": quota + " " + itoa(period)},
		map[string]string{"cpu.cfs_period_us": itoa(period), "cpu.cfs_quota_us": quota})
}

// throttled is how many periods its processes had less CPU than they wanted.
func (g controlGroup) throttled(t *testing.T) (periods int) {
	t.Helper()
	for line := range strings.Lines(slurp(t, filepath.Join(g.dir, "cpu.stat"))) {
		if _, err := fmt.Sscanf(line, "nr_throttled %d", &periods); err == nil {
			return periods
		}
	}
	t.Fatal("cpu.stat does not tell nr_throttled")
	return 0
}
