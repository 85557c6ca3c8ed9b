package meter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// group is the processes of one subject.
type group struct {
	name      string
	pids      func() []int
	processes map[int]*process
	gone      []*process // their pid may be another process' by now
	samples   []uint64   // bytes
	err       error      // of the first process that is there and cannot be read
}

// process is one that is watched. Its file of /proc stays open: reading costs one
// system call, and it never reads of another process that got the same pid.
type process struct {
	pid   int
	statm int // descriptor of /proc/PID/statm; -1: closed
	from  time.Duration
	until time.Duration
	known bool // until is
	late  bool
	fresh bool   // rss was read in this round
	wrote uint64 // bytes, before it counted
	rss   uint64
	buf   [128]byte // of statm
}

func newGroup(name string, pids func() []int) *group {
	// Room for ten minutes at the default period.
	return &group{name: name, pids: pids, processes: map[int]*process{}, samples: make([]uint64, 0, 6000)}
}

// find looks for processes that are not yet watched, and calls f for each.
func (g *group) find(f func(*process)) {
	for _, pid := range g.pids() {
		if old := g.processes[pid]; old != nil {
			if old.read() {
				continue
			}
			g.drop(old)
		}
		p := &process{pid: pid}
		var err error
		p.statm, err = unix.Open("/proc/"+strconv.Itoa(pid)+"/statm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			if g.err == nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
				g.err = fmt.Errorf("memory of process %d: %w", pid, err)
			}
			continue // it has ended between being listed and this
		}
		if !p.read() {
			p.close()
			continue
		}
		g.processes[pid] = p
		f(p)
	}
}

// begin reads the clocks of those that are there at the window's beginning.
func (g *group) begin() {
	var sum uint64
	for _, p := range g.processes {
		if from, err := cpuTime(p.pid); err == nil {
			p.from = from
		} // else it has just ended, as the next sample will see
		p.wrote, _ = written(p.pid)
		sum += p.rss
		p.fresh = false
	}
	g.samples = append(g.samples, sum)
}

// sample adds up the resident sets; processes that have ended are put aside.
func (g *group) sample() {
	var sum uint64
	for _, p := range g.processes {
		if !p.fresh && !p.read() { // it left the group, or ended
			g.drop(p)
			continue
		}
		sum += p.rss
		p.fresh = false
	}
	g.samples = append(g.samples, sum)
}

// end reads the clocks of those that are still there.
func (g *group) end() {
	for _, p := range g.processes {
		p.readEnd()
	}
}

func (p *process) readEnd() {
	// The clock first, then whether it was this process': a pid is not given
	// to another one as quickly as that.
	until, err := cpuTime(p.pid)
	p.until, p.known = until, err == nil && p.read()
	p.fresh = false
}

func (g *group) drop(p *process) {
	p.close()
	delete(g.processes, p.pid)
	g.gone = append(g.gone, p)
}

// usage sums up. Only now may reading be slow.
func (g *group) usage() GroupUsage {
	u := GroupUsage{HasWritten: len(g.processes) > 0}
	for _, p := range g.gone {
		u.add(p)
	}
	for _, p := range g.processes {
		u.add(p)
		if r, err := ReadProcess(p.pid); err == nil {
			u.Processes++
			u.Peak += r.PeakRSS
			u.PSS += pss(p.pid)
			n, ok := written(p.pid)
			u.Written += n - min(n, p.wrote)
			u.HasWritten = u.HasWritten && ok
		}
	}
	u.RSS = median(g.samples)
	return u
}

func (u *GroupUsage) add(p *process) {
	if p.late {
		u.Late++
	}
	if p.known {
		u.CPU += p.until - p.from
	} else {
		u.Vanished++
	}
}

func (g *group) close() {
	for _, p := range g.processes {
		p.close()
	}
}

func (p *process) close() {
	if p.statm >= 0 {
		_ = unix.Close(p.statm) // it was only read
		p.statm = -1
	}
}

var pageSize = uint64(os.Getpagesize()) //nolint:gosec // positive

// read reads the resident set; false if the process is gone. One that has ended
// but was not waited for (a zombie) has no memory, but still its clock.
func (p *process) read() bool {
	for {
		n, err := unix.Pread(p.statm, p.buf[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return false
		}
		pages, ok := secondNumber(p.buf[:n])
		p.rss, p.fresh = pages*pageSize, ok
		return ok
	}
}

// secondNumber reads "size resident …" without allocating.
func secondNumber(b []byte) (n uint64, ok bool) {
	i := 0
	for i < len(b) && b[i] != ' ' {
		i++
	}
	for i++; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		if n > 1<<52/10 { // pages: no machine has as many
			return 0, false
		}
		n, ok = n*10+uint64(b[i]-'0'), true
	}
	return n, ok
}

// median of an even number of samples is the lower one of the middle: a value
// that was seen.
func median(samples []uint64) uint64 {
	if len(samples) == 0 {
		return 0
	}
	slices.Sort(samples)
	return samples[(len(samples)-1)/2]
}
