package adaptive

import (
	"syscall"
	"time"
)

const cpuKnown = true

// cpuTime is the time that the process has spent on all cores, in user and in
// system mode: getrusage(2).
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
