package workloads

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGroupReportsHowAProcessEnded(t *testing.T) {
	g, err := NewGroup("tare-test")
	require.NoError(t, err)
	p, err := g.Start("sh", []string{"/bin/sh", "-c", "echo $WORD >&2; exit 3"}, []string{"WORD=sorry"})
	require.NoError(t, err)
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("the shell did not end within a minute")
	}
	if text := p.Exited().Error(); !strings.Contains(text, "exit status 3") || !strings.Contains(text, "sorry") {
		t.Errorf("error %q", text)
	}
	assert.False(t, p.Success(), "success with status 3")
	if _, err := g.Start("none", []string{"/nonexistent/program"}, nil); err == nil {
		t.Error("started a program that is not there")
	}
	assert.NoError(t, errors.Join(g.Stop(), g.Stop()), "stop, twice")
}

// Whoever waits for a process hears what it does, and at once when it ends.
func TestAwaitTellsWhatTheProcessDoes(t *testing.T) {
	every := tellEvery
	t.Cleanup(func() { tellEvery = every })
	tellEvery = 10 * time.Millisecond
	g, err := NewGroup("tare-test")
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Stop()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := g.Start("slow", []string{"/bin/sh", "-c", "echo begun; echo loading; exec sleep 600"}, nil)
	require.NoError(t, err)
	told := false
	ready := func(context.Context) error {
		if told {
			return nil
		}
		return errors.New("not yet")
	}
	say := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		told = told || strings.Contains(line, "slow") && strings.Contains(line, "loading") && !strings.Contains(line, "begun")
	}
	assert.NoError(t, p.Await(ctx, ready, say))
	if p, err = g.Start("short", []string{"/bin/sh", "-c", "echo sorry; exit 3"}, nil); err != nil {
		t.Fatal(err)
	}
	never := func(context.Context) error { return errors.New("not yet") }
	assert.ErrorContains(t, p.Await(ctx, never, nil), "sorry")
}

func TestStopReachesGrandchildrenAndDeafProcesses(t *testing.T) {
	g, err := NewGroup("tare-test")
	require.NoError(t, err)
	// The shell ends on SIGTERM; its child does not, and is not ours to wait for.
	p, err := g.Start("sh", []string{"/bin/sh", "-c", `sh -c "trap '' TERM; echo \$\$; sleep 100" & wait`}, nil)
	require.NoError(t, err)
	pid := 0
	for deadline := time.Now().Add(time.Minute); pid == 0; time.Sleep(time.Millisecond) {
		if pid, _ = strconv.Atoi(p.Output()); time.Now().After(deadline) {
			t.Fatalf("no number of a process within a minute: %q", p.Output())
		}
	}
	require.NoError(t, g.Stop())
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "grandchild %d", pid)
	if _, err := os.Stat(g.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory: %v", err)
	}
}

// A parent that is killed with SIGKILL cannot clean up: the leader does.
func TestNothingIsLeftWhenTheParentIsKilled(t *testing.T) {
	if os.Getenv("TARE_TEST_PARENT") != "" {
		g, err := NewGroup("tare-test")
		require.NoError(t, err)
		p, err := g.Start("sleep", []string{"sleep", "100"}, nil)
		require.NoError(t, err)
		fmt.Printf("started %d %s\n", p.PID(), g.Dir)
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestNothingIsLeftWhenTheParentIsKilled$")
	parent.Env = append(os.Environ(), "TARE_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var pid int
	var dir string
	deaf := time.AfterFunc(time.Minute, func() { _ = parent.Process.Kill() }) // ends what is read
	line, err := bufio.NewReader(out).ReadString('\n')
	deaf.Stop()
	if err == nil {
		_, err = fmt.Sscanf(line, "started %d %s", &pid, &dir)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	require.NoError(t, err, "%q", line)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, statErr := os.Stat(dir)
		killErr := syscall.Kill(pid, 0)
		// Whoever adopted the process may not have waited for it yet.
		if errors.Is(statErr, os.ErrNotExist) && (errors.Is(killErr, syscall.ESRCH) || zombie(pid)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d: %v; directory %s: %v", pid, killErr, dir, statErr)
		}
	}
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(b), ") Z ")
}

func TestParsePIDs(t *testing.T) {
	for in, want := range map[string][2]int{
		"12 (sh) S 3 12 12": {12, 3},
		"7 (a) b (c)) S 1 ": {7, 1},
	} {
		pid, ppid, ok := parsePIDs([]byte(in))
		if !ok || pid != want[0] || ppid != want[1] {
			t.Errorf("%q: %d %d %v", in, pid, ppid, ok)
		}
	}
	for _, in := range []string{"", "x", "1 (sh", "1 (sh) S", "a (sh) S 1", ") ("} {
		if _, _, ok := parsePIDs([]byte(in)); ok {
			t.Errorf("%q: ok", in)
		}
	}
}
