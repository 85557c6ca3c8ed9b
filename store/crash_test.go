package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// childEnv names the directory in which a child process, this test's binary,
// writes until it is killed.
const childEnv = "TARE_STORE_TEST_CHILD"

// child writes batches of three traces, from several goroutines, and says on
// its standard output which were acknowledged.
func child() int {
	from, err := strconv.Atoi(os.Getenv(childEnv + "_FROM"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := Open(Options{Dir: os.Getenv(childEnv), NoSync: os.Getenv(childEnv+"_SYNC") == ""})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("open")
	var next atomic.Int64
	next.Store(int64(from))
	for range 4 {
		go func() {
			for {
				n := int(next.Add(1) - 1)
				if err := s.Write(context.Background(), shop(n*3, 3)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				// One write call: the line is whole or not there.
				_, _ = os.Stdout.WriteString(strconv.Itoa(n) + "\n")
			}
		}()
	}
	select {}
}

// After every kill everything that was acknowledged is there, and whatever is
// there is whole.
func TestKilled(t *testing.T) {
	for _, sync := range []string{"", "1"} {
		t.Run("sync="+sync, func(t *testing.T) {
			dir := t.TempDir()
			r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
			acknowledged := map[int]bool{}
			next := 0
			for range 7 {
				next = killOne(t, dir, sync, next, acknowledged, time.Duration(r.IntN(int(400*time.Millisecond))))
			}
			if len(acknowledged) < 30 {
				t.Errorf("%d writes acknowledged", len(acknowledged))
			}
			t.Log(len(acknowledged), "writes acknowledged")
		})
	}
}

// killOne runs a child that writes from the batch next on, kills it after the
// delay, checks the directory, and returns the batch to go on with.
func killOne(t *testing.T, dir, sync string, next int, acknowledged map[int]bool, delay time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_FROM="+strconv.Itoa(next), childEnv+"_SYNC="+sync)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "open\n" {
		_ = cmd.Wait()
		t.Fatalf("the child says %q, %v", line, err)
	}
	timer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Errorf("the child says %q", line)
		}
		acknowledged[n] = true
		next = max(next, n+1)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the child was not killed: %v", err)
	}
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	checkKilled(t, s, next, acknowledged)
	// What was written and not acknowledged is not to be written again.
	return next + 16
}

func checkKilled(t *testing.T, s *Store, next int, acknowledged map[int]bool) {
	t.Helper()
	traces := uint64(0)
	for n := range next + 16 {
		there := 0
		for i := range 3 {
			td, err := s.Trace(context.Background(), traceID(uint64(n*3+i+1)))
			if err == nil {
				there++
				if got := td.SpanCount(); got != 10 {
					t.Errorf("batch %d: a trace of %d spans", n, got)
				}
			}
		}
		traces += uint64(there)
		if there != 3 && (there != 0 || acknowledged[n]) {
			t.Errorf("batch %d: %d traces of 3, acknowledged: %v", n, there, acknowledged[n])
		}
	}
	if st := s.Stats(); st.Traces != traces || st.Spans != 10*traces {
		t.Errorf("%d traces found by their ids, Stats has %d, of %d spans", traces, st.Traces, st.Spans)
	}
	r, err := s.Search(context.Background(), Query{Limit: 1000})
	if err != nil || len(r.Traces) != int(min(traces, 1000)) {
		t.Errorf("a search finds %d of %d traces, %v", len(r.Traces), traces, err)
	}
}
