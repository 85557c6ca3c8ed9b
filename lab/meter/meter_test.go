package meter

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const stat = `cpu  100 2 30 4000 50 6 7 8 9 0
cpu0 50 1 15 2000 25 3 3 4 4 0
cpu1 50 1 15 2000 25 3 4 4 5 0
intr 1 2 3
ctxt 4
`

func TestParseStat(t *testing.T) {
	m, err := parseStat([]byte(stat))
	if err != nil || m.CPUs != 2 || m.Idle != 40500*time.Millisecond || m.Stolen != 80*time.Millisecond {
		t.Errorf("%+v, %v", m, err)
	}
	for name, in := range map[string]string{
		"empty":     "",
		"no cpus":   "cpu  1 2 3 4 5 6 7 8 9 0\n",
		"few":       "cpu  1 2 3 4\ncpu0 1 2 3 4\n",
		"no number": strings.Replace(stat, "4000", "4k", 1),
		"too large": strings.Replace(stat, "4000", "99999999999999999999", 1),
	} {
		if m, err := parseStat([]byte(in)); err == nil {
			t.Errorf("%s: %+v and no error", name, m)
		}
	}
}

func TestWindow(t *testing.T) {
	now := time.Now()
	a := Machine{At: now, CPUs: 4, Idle: 10 * time.Second, Stolen: time.Second}
	b := Machine{At: now.Add(2 * time.Second), CPUs: 4, Idle: 15 * time.Second, Stolen: 1500 * time.Millisecond}
	w, err := a.Until(b)
	// 2 s of 4 CPUs, less 5 s idle and half a second stolen.
	if err != nil || w.Busy != 2500*time.Millisecond || w.Cores() != 1.25 || w.Stolen != 500*time.Millisecond {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := b.Until(a); err == nil {
		t.Error("readings out of order: no error")
	}
	b.CPUs = 3
	if _, err := a.Until(b); err == nil {
		t.Error("a CPU went away: no error")
	}
}

func TestReadMachineMovesForward(t *testing.T) {
	a, err := ReadMachine()
	require.NoError(t, err)
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; {
		_ = math.Sqrt(float64(time.Now().UnixNano())) // keep one CPU busy
	}
	b, err := ReadMachine()
	require.NoError(t, err)
	w, err := a.Until(b)
	if err != nil || w.Busy < 200*time.Millisecond || w.Cores() > float64(a.CPUs) {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestReadProcess(t *testing.T) {
	a, err := ReadProcess(os.Getpid())
	require.NoError(t, err)
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
		_ = math.Sqrt(float64(time.Now().UnixNano()))
	}
	b, err := ReadProcess(os.Getpid())
	require.NoError(t, err)
	if b.CPU-a.CPU < time.Millisecond || b.RSS < 1<<20 || b.PeakRSS < b.RSS/2 {
		t.Errorf("%+v, then %+v", a, b)
	}
}

func TestReadProcessThatIsGone(t *testing.T) {
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	for _, pid := range []int{cmd.Process.Pid, 0, -1} {
		if _, err := ReadProcess(pid); !errors.Is(err, ErrGone) {
			t.Errorf("pid %d: %v", pid, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	rss, peak, err := parseStatus([]byte("Name:\ttare\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t5\n"))
	if err != nil || rss != 1<<20 || peak != 2<<20 {
		t.Errorf("%d, %d, %v", rss, peak, err)
	}
	for name, in := range map[string]string{
		"zombie":  "Name:\ttare\nState:\tZ (zombie)\n",
		"unit":    "VmHWM:\t1 MB\nVmRSS:\t1 MB\n",
		"garbage": "VmHWM:\tx kB\nVmRSS:\t1 kB\n",
	} {
		if _, _, err := parseStatus([]byte(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
