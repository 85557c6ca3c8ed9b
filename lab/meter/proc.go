package meter

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// startTime of a process since the machine was booted (CLOCK_BOOTTIME), in steps
// of 10 ms.
func startTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStartTime(b)
}

// parseStartTime reads field 22 of proc_pid_stat(5). The second one is the
// command in parentheses, which may itself hold spaces and parentheses.
func parseStartTime(b []byte) (time.Duration, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0, fmt.Errorf("cannot read %q", b)
	}
	fields := bytes.Fields(b[i+1:])
	const at = 22 - 3
	if len(fields) <= at {
		return 0, fmt.Errorf("cannot read %q", b)
	}
	n, err := strconv.ParseUint(string(fields[at]), 10, 53)
	if err != nil {
		return 0, fmt.Errorf("start time: %w", err)
	}
	return fromTicks(n), nil
}

// pss reads the proportional set size in bytes (Linux 4.14), 0 if it cannot be
// known.
func pss(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	return parsePSS(b)
}

func parsePSS(b []byte) uint64 {
	for line := range bytes.Lines(b) {
		value, found := bytes.CutPrefix(line, []byte("Pss:"))
		if !found {
			continue
		}
		number, unit, _ := bytes.Cut(bytes.TrimSpace(value), []byte(" "))
		n, err := strconv.ParseUint(string(number), 10, 53)
		if err != nil || string(unit) != "kB" {
			return 0
		}
		return n << 10
	}
	return 0
}

// written reads how many bytes a process has caused to be written to storage; false if the
// kernel does not say (CONFIG_TASK_IO_ACCOUNTING), or not to this process.
func written(pid int) (uint64, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, false
	}
	return parseWritten(b)
}

func parseWritten(b []byte) (uint64, bool) {
	for line := range bytes.Lines(b) {
		if value, found := bytes.CutPrefix(line, []byte("write_bytes:")); found {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 63)
			return n, err == nil
		}
	}
	return 0, false
}
