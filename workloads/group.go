package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long processes may take to end after SIGTERM, where their group says nothing else.
const grace = 5 * time.Second

// Group is a process group and a temporary directory. Both are removed by Stop,
// and also when this process dies, by whatever signal.
//
// A parent-death signal would not suffice: it is sent when the *thread* that
// started the child ends, it reaches children only, not theirs, and the
// directory would remain. Instead, the group's leader is a shell that reads
// from a pipe whose other end this process holds. When the kernel closes that
// end, the shell cleans up.
type Group struct {
	Dir string
	// Grace is how long a process that is started next may take to end after SIGTERM; 0: 5 s.
	Grace time.Duration

	leader *exec.Cmd
	alive  io.Closer // our end of the pipe
	mu     sync.Mutex
	procs  []*process
	once   sync.Once
	err    error
}

// reaper is the leader's program; $1 is the directory. It outlives its own
// SIGTERM, gives the others two seconds, and ends with all that is left.
const reaper = `trap '' TERM INT HUP
read -r _
kill -TERM 0
sleep 2
rm -rf -- "$1"
kill -KILL 0`

// NewGroup makes the directory (its name begins with prefix) and the group.
func NewGroup(prefix string) (*Group, error) {
	dir, err := os.MkdirTemp("", prefix+"-")
	if err != nil {
		return nil, err
	}
	// Workers that give up root must reach their files, too.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // holds no secrets
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	leader := exec.Command("/bin/sh", "-c", reaper, "tare-reaper", dir)
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leader.Dir = "/" // not a place that somebody may want to remove
	alive, err := leader.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := leader.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Group{Dir: dir, leader: leader, alive: alive}, nil
}

// process is a child in the group.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string
	grace time.Duration
	done  chan struct{} // closed when it was waited for
}

// command is how a process of the group is started.
type command struct {
	name string // of its log file
	argv []string
	env  []string // all of it; nil: this process'
	dir  string   // working directory; "": the group's
}

// Start starts a command in the group; name is that of its log file. Env is
// added to this process' environment.
func (g *Group) Start(name string, argv, env []string) (*Process, error) {
	p, err := g.launch(command{name: name, argv: argv, env: append(os.Environ(), env...)})
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

// StartIn starts a command in a directory, with all of its environment.
func (g *Group) StartIn(dir, name string, argv, env []string) (*Process, error) {
	p, err := g.launch(command{name: name, argv: argv, env: env, dir: dir})
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

func (g *Group) launch(c command) (*process, error) {
	log := filepath.Join(g.Dir, c.name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // a log
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, c.env
	if c.dir == "" {
		cmd.Dir = g.Dir
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.leader.Process.Pid}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p := &process{name: c.name, cmd: cmd, log: log, grace: cmp.Or(g.Grace, grace), done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // cmd.ProcessState says how it ended
		close(p.done)
	}()
	g.mu.Lock()
	g.procs = append(g.procs, p)
	g.mu.Unlock()
	return p, nil
}

// stop asks the process to end, waits, and insists.
func (p *process) stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it ended meanwhile
	select {
	case <-p.done:
		return nil
	case <-time.After(p.grace):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end within %v of SIGTERM: killed", p.name, p.grace)
}

// exited describes how a process ended that should be running, with the end
// of what it wrote.
func (p *process) exited() error {
	return fmt.Errorf("%s ended (%s)%s", p.name, p.cmd.ProcessState, quoteLog(p.tail()))
}

func quoteLog(s string) string {
	if s == "" {
		return " without a message"
	}
	return ":\n  " + strings.ReplaceAll(s, "\n", "\n  ")
}

// tail is the last of what the process wrote.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	const most = 4 << 10
	if len(b) > most {
		b = b[len(b)-most:]
		if i := strings.IndexByte(string(b), '\n'); i >= 0 {
			b = b[i+1:]
		}
	}
	return strings.TrimSpace(string(b))
}

// Stop ends every process of the group, the started ones' descendants
// included, and removes the directory. An error says who had to be killed.
func (g *Group) Stop() error {
	g.once.Do(func() { g.err = g.stop() })
	return g.err
}

func (g *Group) stop() error {
	g.mu.Lock()
	procs := g.procs
	g.mu.Unlock()
	errs := make([]error, len(procs))
	var wait sync.WaitGroup
	for i, p := range procs {
		wait.Add(1)
		go func() {
			defer wait.Done()
			errs[i] = p.stop()
		}()
	}
	wait.Wait()
	pgid := g.leader.Process.Pid
	_ = syscall.Kill(-pgid, syscall.SIGKILL) // the leader, and who was left behind
	_ = g.leader.Wait()
	_ = g.alive.Close()
	errs = append(errs, awaitEmpty(pgid), os.RemoveAll(g.Dir))
	return errors.Join(errs...)
}

// CPU is the CPU time of the group's processes that have ended, and of those that they waited for.
func (g *Group) CPU() (total time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.procs {
		select {
		case <-p.done:
			total += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		default:
		}
	}
	return total
}

// awaitEmpty waits until no process is in the group any more.
func awaitEmpty(pgid int) error {
	for deadline := time.Now().Add(grace); ; time.Sleep(2 * time.Millisecond) {
		if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process group %d is still there %v after SIGKILL", pgid, grace)
		}
	}
}
