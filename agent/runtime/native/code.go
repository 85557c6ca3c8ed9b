package native

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CodePages is how many pages of code a process has mapped: mm->exec_vm, which
// changes when it loads a library. Its directory in the proc file system is given.
func CodePages(dir string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, err
	}
	var kilobytes uint64
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if key != "VmExe" && key != "VmLib" { // fs/proc/task_mmu.c makes them of exec_vm
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s/status: %s: %q", dir, key, value)
		}
		kilobytes += n
		found++
	}
	if found != 2 {
		return 0, fmt.Errorf("%s/status does not say VmExe and VmLib: a kernel thread, or it has ended", dir)
	}
	return kilobytes * 1024 / uint64(os.Getpagesize()), nil //nolint:gosec // positive
}
