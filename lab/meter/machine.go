// Package meter reads what the kernel has counted: the busy CPU time of the
// whole machine, the CPU time and memory of processes, the bytes of a network
// interface; single readings, or a Session over a window of time. It refuses to
// estimate: what cannot be read is an error, and what is lost (the CPU time of
// a process that ended) is counted as lost. It measures its own CPU time, too.
package meter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// userHZ is the unit of /proc/stat, 1/100 s on every architecture that Go
// runs on (the kernel's USER_HZ, which is not CONFIG_HZ).
const userHZ = 100

// Machine is a reading of the whole machine's clocks.
type Machine struct {
	At   time.Time
	CPUs int
	Idle time.Duration // idle and waiting for a disk, all CPUs together
	// Stolen by the hypervisor: neither idle nor this machine's work.
	Stolen time.Duration
}

// Window is the time between two readings.
type Window struct {
	Elapsed time.Duration
	// Busy is all CPU time that was not idle, iowait or stolen. It is the
	// complement of the idle clock, since that one is exact, while the
	// kernel attributes busy time by sampling at its ticks. The reading's
	// resolution is 10 ms per CPU: use windows of a second or more.
	Busy   time.Duration
	Stolen time.Duration
	CPUs   int
}

// Cores is the number of CPUs that were busy, on average.
func (w Window) Cores() float64 {
	if w.Elapsed <= 0 {
		return 0
	}
	return float64(w.Busy) / float64(w.Elapsed)
}

// ReadMachine reads /proc/stat.
func ReadMachine() (Machine, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, fmt.Errorf("machine's CPU clocks: %w", err)
	}
	m, err := parseStat(b)
	m.At = time.Now()
	return m, err
}

// Until is the window from m to a later reading.
func (m Machine) Until(later Machine) (Window, error) {
	w := Window{Elapsed: later.At.Sub(m.At), Stolen: later.Stolen - m.Stolen, CPUs: m.CPUs}
	switch {
	case w.Elapsed <= 0:
		return Window{}, errors.New("machine's CPU clocks: the readings are not in order")
	case m.CPUs != later.CPUs:
		return Window{}, fmt.Errorf("machine's CPU clocks: the number of CPUs changed from %d to %d", m.CPUs, later.CPUs)
	}
	w.Busy = w.Elapsed*time.Duration(m.CPUs) - (later.Idle - m.Idle) - w.Stolen
	// A full 10 ms tick may fall on either side of a reading.
	w.Busy = max(w.Busy, 0)
	return w, nil
}

// parseStat reads "cpu user nice system idle iowait irq softirq steal …" and
// counts the lines of single CPUs.
func parseStat(b []byte) (Machine, error) {
	var m Machine
	found := false
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || !bytes.HasPrefix(fields[0], []byte("cpu")) {
			continue
		}
		if len(fields[0]) > len("cpu") {
			m.CPUs++
			continue
		}
		if len(fields) < 9 {
			return Machine{}, fmt.Errorf("/proc/stat: %d fields in %q, need 9", len(fields), line)
		}
		var ticks [9]uint64
		for i := 1; i < len(ticks); i++ {
			n, err := strconv.ParseUint(string(fields[i]), 10, 62)
			if err != nil {
				return Machine{}, fmt.Errorf("/proc/stat: %w", err)
			}
			ticks[i] = n
		}
		m.Idle = fromTicks(ticks[4] + ticks[5])
		m.Stolen = fromTicks(ticks[8])
		found = true
	}
	if !found || m.CPUs == 0 {
		return Machine{}, errors.New("/proc/stat: no line of all CPUs, or none of single ones")
	}
	return m, nil
}

func fromTicks(n uint64) time.Duration {
	return time.Duration(n) * (time.Second / userHZ)
}
