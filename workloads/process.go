package workloads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Process is a command that was started in a Group.
type Process struct{ p *process }

// PID of the process.
func (p *Process) PID() int { return p.p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.p.done }

// Output is the last that the process wrote, standard error included.
func (p *Process) Output() string { return p.p.tail() }

// Exited describes how the process ended; only after Done.
func (p *Process) Exited() error { return p.p.exited() }

// Success reports whether the process ended by itself with status 0; only
// after Done.
func (p *Process) Success() bool { return p.p.cmd.ProcessState.Success() }

// Stop sends SIGTERM, waits for the end, and kills if it does not come.
func (p *Process) Stop() error { return p.p.stop() }

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// ready waits until the service accepts connections and has its workers.
func (s *spec) ready(ctx context.Context, within time.Duration) error {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		missing := s.missing()
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.proc.done:
			return s.proc.exited()
		case <-timeout.C:
			return fmt.Errorf("%s has no %s after %v%s", s.name, missing, within, quoteLog(s.proc.tail()))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *spec) missing() string {
	c, err := net.DialTimeout("tcp", loopback(s.port), time.Second)
	if err != nil {
		return fmt.Sprintf("listener on port %d", s.port)
	}
	_ = c.Close()
	if pids, err := descendants(s.proc.cmd.Process.Pid); err != nil || len(pids) < 1+s.workers {
		return fmt.Sprintf("%d workers", s.workers)
	}
	return ""
}

func (s *spec) service() (Service, error) {
	pid := s.proc.cmd.Process.Pid
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return Service{}, fmt.Errorf("executable of %s: %w", s.name, err)
	}
	pids, err := descendants(pid)
	if err != nil {
		return Service{}, fmt.Errorf("processes of %s: %w", s.name, err)
	}
	return Service{Name: s.name, Port: s.port, PIDs: pids, Exe: exe}, nil
}

// descendants is pid and every process below it.
func descendants(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if errors.Is(err, os.ErrNotExist) {
			continue // ended meanwhile
		}
		child, parent, ok := parsePIDs(b)
		if err == nil && ok {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		slices.Sort(children[all[i]])
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// parsePIDs reads "pid (comm) state ppid …"; comm may hold anything.
func parsePIDs(stat []byte) (pid, ppid int, ok bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || end < open {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	pid, err1 := strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	ppid, err2 := strconv.Atoi(string(fields[1]))
	return pid, ppid, err1 == nil && err2 == nil
}
