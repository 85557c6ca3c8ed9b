package meter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone is returned for a process that does not exist (any more).
var ErrGone = errors.New("no such process")

// Process is a reading of one process, all its threads together.
type Process struct {
	At      time.Time
	CPU     time.Duration // user and system, to the nanosecond
	RSS     uint64        // bytes
	PeakRSS uint64        // bytes, since the process began
}

// ReadProcess reads the clocks and the memory of a process. A process that
// exits leaves no final reading: read before it is stopped.
func ReadProcess(pid int) (Process, error) {
	p := Process{At: time.Now()}
	var err error
	if p.CPU, err = cpuTime(pid); err != nil {
		return Process{}, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		err = ErrGone
	}
	if err != nil {
		return Process{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	if p.RSS, p.PeakRSS, err = parseStatus(b); err != nil {
		return Process{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return p, nil
}

// cpuTime reads the process' CPU clock: /proc/PID/stat shows the same in
// units of 10 ms only, which is half of what a good agent uses in a second.
func cpuTime(pid int) (time.Duration, error) {
	if pid <= 0 {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, ErrGone)
	}
	d, err := cpuClock(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return d, nil
}

// ThreadCPU reads the CPU clock of a thread of this process; ErrGone if it has ended.
func ThreadCPU(id int) (time.Duration, error) {
	d, err := cpuClock(id, perThread)
	if err != nil {
		return 0, fmt.Errorf("CPU time of thread %d: %w", id, err)
	}
	return d, nil
}

// perThread makes a CPU clock that of a thread.
const perThread = 4

// cpuClock reads the CPU clock of a task: clock_getcpuclockid(3), pthread_getcpuclockid(3).
func cpuClock(id int, of int32) (time.Duration, error) {
	// The complement of the id above three bits, of which 2 is CPUCLOCK_SCHED, the scheduler's
	// own sum.
	clock := int32(^id)<<3 | 2 | of //nolint:gosec // ids have 22 bits
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) {
			err = ErrGone
		}
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// parseStatus finds VmRSS and VmHWM. A zombie has neither: it is gone.
func parseStatus(b []byte) (rss, peak uint64, err error) {
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		var to *uint64
		switch string(name) {
		case "VmRSS":
			to = &rss
		case "VmHWM":
			to = &peak
		default:
			continue
		}
		number, unit, _ := bytes.Cut(bytes.TrimSpace(value), []byte(" "))
		n, err := strconv.ParseUint(string(number), 10, 53)
		if err != nil || string(unit) != "kB" {
			return 0, 0, fmt.Errorf("cannot read %q", bytes.TrimSpace(line))
		}
		*to = n << 10
	}
	if rss == 0 || peak == 0 {
		return 0, 0, ErrGone
	}
	return rss, peak, nil
}
