package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// child is a process that a test has started.
type child struct {
	t    *testing.T
	name string // in messages
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{} // closed when it was waited for
	// end is the signal by which its operator ends it, within how long.
	end    os.Signal
	within time.Duration
}

// logBuffer collects standard output and error.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// spawn starts a process in a group of its own. It is stopped at the end of the
// test if it still runs, and must then end well.
func spawn(t *testing.T, name string, end os.Signal, within time.Duration, env []string, argv ...string) *child {
	t.Helper()
	c := &child{t: t, name: name, log: &logBuffer{}, done: make(chan struct{}), end: end, within: patient(within)}
	c.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...) //nolint:gosec // the test's own
	c.cmd.Env = env
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // ProcessState tells
		close(c.done)
	}()
	t.Cleanup(func() {
		c.stop()
		worked(t, c.cmd.ProcessState, c.name)
		if t.Failed() {
			t.Logf("%s, process %d, wrote:\n%s", c.name, c.pid(), c.log)
		}
	})
	return c
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// await polls until ready holds, and fails at once if the process ends.
func (c *child) await(within time.Duration, what string, ready func() bool) {
	c.t.Helper()
	until(c.t, within, what, func() bool {
		select {
		case <-c.done:
			c.t.Fatalf("%s ended: %v\n%s", c.name, c.cmd.ProcessState, c.log)
		default:
		}
		return ready()
	})
}

// stop ends it as its operator would; it must end well.
func (c *child) stop() {
	c.t.Helper()
	select {
	case <-c.done:
		return
	default:
	}
	defer waited(c.t, time.Now(), c.name+" ends")
	_ = c.cmd.Process.Signal(c.end) // it may have ended meanwhile
	select {
	case <-c.done:
		if !c.cmd.ProcessState.Success() {
			c.t.Errorf("%s ended with %v\n%s", c.name, c.cmd.ProcessState, c.log)
		}
	case <-time.After(c.within):
		_ = c.cmd.Process.Signal(syscall.SIGQUIT) // a program in Go writes what its goroutines do
		select {
		case <-c.done:
		case <-time.After(c.within):
			_ = c.cmd.Process.Kill()
			<-c.done
		}
		c.t.Errorf("%s did not end within %v of %v\n%s", c.name, c.within, c.end, c.log)
	}
}

// kill ends it with SIGKILL and waits until the process is gone.
func (c *child) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	<-c.done
}
