package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

// CodePages is how many pages of code a process has mapped: mm->exec_vm, which
// changes when it loads a library. Its directory in the proc file system is given.
func CodePages(dir string, a *reading.Account) (uint64, error) {
	f, err := os.Open(filepath.Join(dir, "status"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read from
	var kilobytes uint64
	found := 0
	err = errors.Join(a.Lines(f, func(line []byte) bool {
		key, value, _ := strings.Cut(string(line[:min(len(line), maxString)]), ":")
		if key != "VmExe" && key != "VmLib" { // fs/proc/task_mmu.c makes them of exec_vm
			return true
		}
		var n uint64
		if n, err = strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64); err != nil {
			err = fmt.Errorf("%s/status: %s: %.64q", dir, key, value)
		}
		kilobytes += n
		found++
		return err == nil
	}), err)
	if err != nil {
		return 0, err
	}
	if found != 2 {
		return 0, fmt.Errorf("%s/status does not say VmExe and VmLib: a kernel thread, or it has ended", dir)
	}
	return kilobytes * 1024 / uint64(os.Getpagesize()), nil //nolint:gosec // positive
}
