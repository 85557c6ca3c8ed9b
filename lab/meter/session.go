package meter

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultEvery is a period of memory samples whose cost is negligible.
const DefaultEvery = 100 * time.Millisecond

// Subjects is what a session watches.
type Subjects struct {
	// Groups of processes: name → their ids now. Processes may come and go. The
	// functions are called from one thread of the session, at both ends and once
	// per period; what they cost is in Usage.Meter.
	Groups map[string]func() []int
	// Link is a network interface of this namespace: of a veth pair the end that
	// is here, while the subjects have the other one. "": no network.
	Link string
	// Loopback is a process in whose network namespace the loopback interface is
	// counted. 0: none.
	Loopback int
	// Every is the period in which memory is sampled and processes are looked
	// for. 0: only at both ends; negative: an error.
	Every time.Duration
}

// Usage is what happened in the window of a session.
type Usage struct {
	Elapsed time.Duration
	Machine Window
	Groups  map[string]GroupUsage
	// OutBytes and OutPackets came in on Link: they left the subjects' network
	// namespace. Ethernet headers (14 bytes) count; what the kernel would cut
	// into packets only at a real network card (segmentation offload, on by
	// default) counts as the one large packet that crossed the veth.
	OutBytes, OutPackets uint64
	// LoopbackBytes passed the loopback of that namespace. IP headers count, there
	// are no others.
	LoopbackBytes uint64
	// Meter is the CPU time of the session's own thread within the window, by
	// CLOCK_THREAD_CPUTIME_ID, the functions of Groups included.
	Meter time.Duration
	// Lab is the CPU time of this whole process within the window, the meter
	// included.
	Lab time.Duration
}

// GroupUsage is what a group of processes used.
type GroupUsage struct {
	// CPU of all processes, user and system, by their CPU clocks at both ends: it
	// is not sampled. One that began within the window counts from its
	// beginning. That of one that ended within it and was waited for by its
	// parent is lost from the window's beginning on: see Vanished.
	CPU time.Duration
	// RSS is the median over the samples (both ends included) of the resident
	// sets of all processes together, in bytes. What processes share counts in
	// each of them. From Linux 6.2 on the kernel keeps these numbers per CPU and
	// may be off by some pages for each.
	RSS uint64
	// Peak is the sum of the greatest resident sets (VmHWM, bytes) of the
	// processes that were alive at the end, each since it began: not only in the
	// window, and not at one time.
	Peak uint64
	// PSS at the end, in bytes: like RSS, but what n processes share counts 1/n
	// in each. It is read after the window, since that costs the subject time.
	// 0 where the kernel does not provide it, or denies it to this process.
	PSS uint64
	// Written is how many bytes the processes that were alive at the end caused to be
	// written to storage, by then or later (write_bytes of proc_pid_io(5)): what went
	// to a file system in memory, or to the network, is not in it. HasWritten: the
	// kernel tells it of all of them.
	Written    uint64
	HasWritten bool
	// Processes that were alive at the end.
	Processes int
	// Vanished processes ended within the window, and their CPU time is lost. A
	// process that began and ended between two samples was not seen at all.
	Vanished int
	// Late processes are older than the window, but joined the group within it:
	// their CPU time counts from then on.
	Late int
}

// Session watches its subjects from Begin to End.
type Session struct {
	stop  chan struct{}
	began chan error
	ended chan outcome
}

type outcome struct {
	usage Usage
	err   error
}

// Begin reads all clocks and goes on sampling until End, which must be called
// even if its result is not wanted. A group without processes is no error: they
// may come.
func Begin(subjects Subjects) (*Session, error) {
	if subjects.Every < 0 {
		return nil, fmt.Errorf("meter: a period of %v; 0 means only at both ends", subjects.Every)
	}
	for name, pids := range subjects.Groups {
		if pids == nil {
			return nil, fmt.Errorf("meter: group %q has no function that lists its processes", name)
		}
	}
	s := &Session{stop: make(chan struct{}), began: make(chan error), ended: make(chan outcome, 1)}
	go s.run(subjects)
	if err := <-s.began; err != nil {
		return nil, err
	}
	return s, nil
}

// End reads all clocks again. It can be called once.
func (s *Session) End() (Usage, error) {
	if s.stop == nil {
		return Usage{}, errors.New("meter: the session has ended")
	}
	close(s.stop)
	s.stop = nil
	o := <-s.ended
	return o.usage, o.err
}

// run is the session's thread. It is locked so that its CPU clock is of nothing
// else, and so that the Go scheduler's own work falls on other threads.
func (s *Session) run(subjects Subjects) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stop := s.stop // End takes it away
	w := newWatch(subjects)
	if err := w.begin(); err != nil {
		w.close()
		s.began <- err
		return
	}
	s.began <- nil
	if subjects.Every > 0 {
		tick := time.NewTicker(subjects.Every)
		defer tick.Stop()
		for running := true; running; {
			select {
			case <-stop:
				running = false
			case <-tick.C:
				w.sample()
			}
		}
	} else {
		<-stop
	}
	var o outcome
	o.usage, o.err = w.end()
	w.close() // before End returns
	s.ended <- o
}

// watch is what a session's thread reads with.
type watch struct {
	groups []*group
	link   *link     // nil: none
	inside *loopback // nil: none

	machine    Machine
	lab, meter time.Duration
	out        traffic
	within     uint64
	boot       time.Duration  // CLOCK_BOOTTIME of the beginning
	newcomer   func(*process) // joined: a method value made once, not per sample
}

func newWatch(subjects Subjects) *watch {
	w := &watch{}
	w.newcomer = w.joined
	for name, pids := range subjects.Groups {
		w.groups = append(w.groups, newGroup(name, pids))
	}
	// The order is the same at both ends, so that what reading takes cancels out.
	slices.SortFunc(w.groups, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	if subjects.Link != "" {
		w.link = &link{name: subjects.Link}
	}
	if subjects.Loopback != 0 {
		w.inside = &loopback{pid: subjects.Loopback}
	}
	return w
}

func (w *watch) begin() error {
	var err error
	if w.link != nil {
		if err = w.link.open(); err != nil {
			return err
		}
	}
	if w.inside != nil {
		if err = w.inside.open(); err != nil {
			return err
		}
	}
	// What is slow is done before the window: opening files.
	w.boot = clock(unix.CLOCK_BOOTTIME)
	for _, g := range w.groups {
		if g.find(func(*process) {}); g.err != nil {
			return g.err
		}
	}
	w.meter = clock(unix.CLOCK_THREAD_CPUTIME_ID)
	w.lab = clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	if w.machine, err = ReadMachine(); err != nil {
		return err
	}
	if w.link != nil {
		if w.out, err = w.link.read(); err != nil {
			return err
		}
	}
	if w.inside != nil {
		if w.within, err = w.inside.read(); err != nil {
			return err
		}
	}
	for _, g := range w.groups {
		g.begin()
	}
	return nil
}

// sample is one reading within the window.
func (w *watch) sample() {
	for _, g := range w.groups {
		g.find(w.newcomer)
		g.sample()
	}
}

// joined decides from when on a process counts that was not there at the
// beginning.
func (w *watch) joined(p *process) {
	started, err := startTime(p.pid)
	// In units of 10 ms, rounded down: one that began in the tick of the
	// window's beginning is new, since it was not there then.
	if err == nil && started < w.boot.Truncate(time.Second/userHZ) {
		p.from, err = cpuTime(p.pid)
		p.late = err == nil
		p.wrote, _ = written(p.pid)
	}
}

func (w *watch) end() (Usage, error) {
	u := Usage{Groups: map[string]GroupUsage{}}
	u.Meter = clock(unix.CLOCK_THREAD_CPUTIME_ID) - w.meter
	u.Lab = clock(unix.CLOCK_PROCESS_CPUTIME_ID) - w.lab
	machine, err := ReadMachine()
	if err != nil {
		return Usage{}, err
	}
	if u.Machine, err = w.machine.Until(machine); err != nil {
		return Usage{}, err
	}
	u.Elapsed = u.Machine.Elapsed
	if w.link != nil {
		out, err := w.link.read()
		if err != nil {
			return Usage{}, err
		}
		u.OutBytes, u.OutPackets = out.bytes-w.out.bytes, out.packets-w.out.packets
	}
	if w.inside != nil {
		within, err := w.inside.read()
		if err != nil {
			return Usage{}, err
		}
		u.LoopbackBytes = within - w.within
	}
	for _, g := range w.groups {
		g.end()
	}
	// Here the window is over; processes that were found only now are counted
	// from their beginning.
	for _, g := range w.groups {
		g.find(func(p *process) {
			w.joined(p)
			p.readEnd()
		})
		g.sample()
		u.Groups[g.name] = g.usage()
		err = errors.Join(err, g.err)
	}
	return u, err
}

func (w *watch) close() {
	for _, g := range w.groups {
		g.close()
	}
	if w.link != nil {
		w.link.close()
	}
	if w.inside != nil {
		w.inside.close()
	}
}

// clock reads one of the clocks that every Linux has.
func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(fmt.Sprintf("clock %d: %v", id, err)) // as impossible as reading no time at all
	}
	return time.Duration(ts.Nano())
}
