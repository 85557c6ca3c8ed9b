package testkit

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

// Child is a process that a test has started, in a group of its own.
type Child struct {
	T    testing.TB
	Name string // in messages
	Cmd  *exec.Cmd
	Log  *Log
	Done chan struct{} // closed when it was waited for
	// End is the signal by which its operator ends it, within how long.
	End    os.Signal
	Within time.Duration
}

// Log collects what processes write, from several goroutines.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Spawn starts a process with nothing but the environment that is given. It is stopped at the end of the test if it
// still runs, and must then end well.
func Spawn(t testing.TB, name string, end os.Signal, within time.Duration, env []string, argv ...string) *Child {
	t.Helper()
	c := &Child{T: t, Name: name, Log: &Log{}, Done: make(chan struct{}), End: end, Within: within}
	c.Cmd = exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...) //nolint:gosec // the test's own
	c.Cmd.Env = env
	c.Cmd.Stdout, c.Cmd.Stderr = c.Log, c.Log
	c.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.Cmd.Wait() // ProcessState tells
		close(c.Done)
	}()
	t.Cleanup(func() {
		c.Stop()
		Worked(t, c.Cmd.ProcessState, c.Name)
		if t.Failed() {
			t.Logf("%s, process %d, wrote:\n%s", c.Name, c.PID(), c.Log)
		}
	})
	return c
}

// PID is the process' id.
func (c *Child) PID() int { return c.Cmd.Process.Pid }

// Over tells whether the process has ended.
func (c *Child) Over() bool {
	select {
	case <-c.Done:
		return true
	default:
		return false
	}
}

// Await is Until, and fails at once if the process ends.
func (c *Child) Await(limit time.Duration, what string, ready func() bool) {
	c.T.Helper()
	Until(c.T, limit, what, func() bool {
		if c.Over() {
			c.T.Fatalf("%s ended: %v\n%s", c.Name, c.Cmd.ProcessState, c.Log)
		}
		return ready()
	})
}

// Stop ends it as its operator would; it must end well.
func (c *Child) Stop() {
	c.T.Helper()
	if c.Over() {
		return
	}
	defer Waited(c.T, time.Now(), c.Name+" ends")
	_ = c.Cmd.Process.Signal(c.End) // it may have ended meanwhile
	if ComesTrue(c.Within, c.Over) {
		if !c.Cmd.ProcessState.Success() {
			c.T.Errorf("%s ended with %v\n%s", c.Name, c.Cmd.ProcessState, c.Log)
		}
		return
	}
	_ = c.Cmd.Process.Signal(syscall.SIGQUIT) // a program in Go writes what its goroutines do
	if !ComesTrue(c.Within, c.Over) {
		_ = c.Cmd.Process.Kill()
		<-c.Done
	}
	c.T.Errorf("%s did not end within %v of %v\n%s", c.Name, c.Within, c.End, c.Log)
}

// Kill ends it with SIGKILL and waits until the process is gone.
func (c *Child) Kill() {
	c.T.Helper()
	if err := c.Cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.T.Fatal(err)
	}
	<-c.Done
}
