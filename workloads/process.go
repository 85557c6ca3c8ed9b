package workloads

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Process is a command that was started in a Group.
type Process struct{ p *process }

// PID of the process.
func (p *Process) PID() int { return p.p.cmd.Process.Pid }

// PIDs are the process and its descendants as they are now; none after its end.
func (p *Process) PIDs() []int {
	select {
	case <-p.Done(): // its pid may be another's by now
		return nil
	default:
	}
	pids, err := descendants(p.PID())
	if err != nil {
		return []int{p.PID()} // only without /proc
	}
	return pids
}

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

// patience is how long a process may take to get ready: the kernel verifies the agent's
// programs at its start, which takes minutes where a processor is emulated.
const patience = 5 * time.Minute

// tellEvery is how often Await says what the process is doing; a variable for tests.
var tellEvery = 5 * time.Second

// Await waits until ready returns nil, for as long as the process lives. Every few
// seconds it hands say, unless nil, the last line that the process wrote.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error, say func(format string, args ...any)) error {
	begin := time.Now()
	tell := time.NewTicker(tellEvery)
	defer tell.Stop()
	for {
		last := ready(ctx)
		select {
		case <-p.Done(): // somebody else answers in its place if its address was taken
			return p.Exited()
		default:
		}
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Done():
			return p.Exited()
		case <-tell.C:
			spent := time.Since(begin).Round(time.Second)
			if spent > patience {
				return fmt.Errorf("%s is not ready after %v (%w)%s", p.p.name, spent, last, quoteLog(p.Output()))
			}
			if say != nil {
				say("waiting for %s since %v; its last words%s", p.p.name, spent, quoteLog(lastLine(p.Output())))
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// ready waits until the service accepts connections, has its workers and says
// that it is healthy.
func (s *spec) ready(ctx context.Context, within time.Duration) error {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		// First: somebody else's service may answer in the place of one that
		// ended because the port was taken.
		select {
		case <-s.proc.done:
			return s.proc.exited()
		default:
		}
		missing := s.missing(ctx)
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

func (s *spec) missing(ctx context.Context) string {
	c, err := net.DialTimeout("tcp", s.address(), time.Second)
	if err != nil {
		return "listener on " + s.address()
	}
	_ = c.Close()
	if pids, err := descendants(s.proc.cmd.Process.Pid); err != nil || len(pids) < 1+s.workers {
		return fmt.Sprintf("%d workers", s.workers)
	}
	if s.health == "" {
		return ""
	}
	return s.unhealthy(ctx)
}

// unhealthy says what is missing from an answer with 2xx.
func (s *spec) unhealthy(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := "http://" + s.address() + s.health
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Sprintf("health to ask for (%v)", err)
	}
	// Neither a proxy nor a connection that stays.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Sprintf("answer from %s (%v)", url, err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Sprintf("2xx from %s: it answers %s", url, resp.Status)
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
	return Service{Name: s.name, Host: s.host, Port: s.port, Metrics: s.metrics, PIDs: pids, Exe: exe, Dependency: s.dependency, Proxy: s.proxy, Alike: s.alike, Linking: s.linking}, nil
}

// descendants is roots and every process below them.
func descendants(roots ...int) ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = proc.Close() }()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		b, err := os.ReadFile("/proc/" + name + "/stat")
		child, parent, ok := parsePIDs(b)
		if err == nil && ok { // otherwise it ended meanwhile
			children[parent] = append(children[parent], child)
		}
	}
	all := slices.Clone(roots)
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

// startTime is when a process began, in clock ticks since boot: together with
// its pid, it names the process for good.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Field 22 of proc(5); the fields after the name begin with the third.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
