package logfile

import (
	"os"
	"syscall"
)

// lock keeps other processes, and other exporters of this one, from writing the file while it is open.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor
}
