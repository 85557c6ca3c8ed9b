package meter

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const (
	subjectEnv  = "TARE_METER_SUBJECT"
	subjectFile = "TARE_METER_FILE" // that it writes
)

// TestMain is the subject, too: a process that does what it is told on stdin.
func TestMain(m *testing.M) {
	if os.Getenv(subjectEnv) != "" {
		beSubject()
		return
	}
	goleak.VerifyTestMain(m)
}

var held []byte // by the subject

// beSubject reads "burn MS", "hold MIB" and "write MIB" and answers when it is done.
func beSubject() {
	in := bufio.NewReader(os.Stdin)
	for {
		var what string
		var n int
		if _, err := fmt.Fscanln(in, &what, &n); err != nil {
			return
		}
		switch what {
		case "burn":
			until := clock(unix.CLOCK_PROCESS_CPUTIME_ID) + time.Duration(n)*time.Millisecond
			for clock(unix.CLOCK_PROCESS_CPUTIME_ID) < until {
			}
		case "hold":
			held = make([]byte, n<<20)
			for i := range held {
				held[i] = 1
			}
		case "write":
			if err := os.WriteFile(os.Getenv(subjectFile), make([]byte, n<<20), 0o600); err != nil {
				panic(err)
			}
		}
		fmt.Println("done")
	}
}

type subject struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	over bool
}

func startSubject(t *testing.T) *subject {
	t.Helper()
	s := &subject{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$")}
	// The race detector would wait a second before it exits.
	s.cmd.Env = append(os.Environ(), subjectEnv+"=1", "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = os.Stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.out = bufio.NewReader(out)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(s.wait)
	s.do("hold", 0) // it is past its exec and its beginning
	return s
}

func (s *subject) pid() int { return s.cmd.Process.Pid }

func (s *subject) do(what string, n int) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.in, what, n); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.out.ReadString('\n'); err != nil {
		s.t.Fatalf("the subject has ended: %v", err)
	}
}

// quit ends it without waiting for it: it becomes a zombie.
func (s *subject) quit() {
	s.t.Helper()
	if err := s.in.Close(); err != nil {
		s.t.Error(err)
	}
	if _, err := s.out.ReadByte(); err != io.EOF {
		s.t.Errorf("after the end: %v", err)
	}
}

func (s *subject) wait() {
	if s.over {
		return
	}
	s.over = true
	_ = s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		s.t.Error(err)
	}
}

func cpuOf(t *testing.T, s *subject) time.Duration {
	t.Helper()
	d, err := cpuTime(s.pid())
	require.NoError(t, err)
	return d
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
