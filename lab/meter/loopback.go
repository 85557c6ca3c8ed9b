package meter

import (
	"bytes"
	"fmt"
	"os"
)

// loopback reads the counter of the loopback interface of a process' network
// namespace, by a file that stays open and keeps the namespace.
type loopback struct {
	pid  int
	file *os.File
}

func (l *loopback) open() (err error) {
	l.file, err = os.Open(fmt.Sprintf("/proc/%d/net/dev", l.pid))
	return err
}

// read gets the bytes received, which on a loopback are the bytes sent.
func (l *loopback) read() (uint64, error) {
	var buf [4096]byte // the kernel lists loopback first
	n, err := l.file.ReadAt(buf[:], 0)
	if n == 0 {
		return 0, fmt.Errorf("loopback of process %d: %w", l.pid, err)
	}
	for line := range bytes.Lines(buf[:n]) {
		name, numbers, ok := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		if fields := bytes.Fields(numbers); ok && string(name) == "lo" && len(fields) > 0 {
			return parseNumber(fields[0])
		}
	}
	return 0, fmt.Errorf("loopback of process %d: its network namespace has none", l.pid)
}

func (l *loopback) close() {
	if l.file != nil {
		l.file.Close() //nolint:errcheck // it was only read
	}
}
