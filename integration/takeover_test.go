package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
)

// A second agent would trace every request again: it refuses, and names the first. One
// that was killed leaves nothing that would keep the next one from beginning.
func TestSecondAgentRefuses(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	same := []string{"TARE_INSTANCE=" + t.Name()}
	first := trace(t, s, same, ports(c)...)
	for _, args := range [][]string{{"agent"}, {"run", "--store", t.TempDir()}} {
		second := launchAs(t, s, same, slices.Concat([]string{tare}, args, ports(c))...)
		testkit.Until(t, time.Minute, "the second agent ends", second.Over)
		said := second.Log.String()
		if second.Cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, fmt.Sprintf("process %d (tare-agent)", first.PID())) || !strings.Contains(said, "--replace") {
			t.Errorf("tare %v: status %d\n%s", args, second.Cmd.ProcessState.ExitCode(), said)
		}
	}
	requests := few(100)
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: uint64(requests), AppendPath: c.AppendPath})
	first.settle()
	if r := judge(t, s.all(), shapeOf(t, "nginx")); r.Traces != requests {
		t.Errorf("%d traces of %d requests", r.Traces, requests)
	}
	first.Kill()
	trace(t, s, same, ports(c)...)
}

// Agents take over from each other under load, and every request has one trace.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	need(t)
	times := 1
	if *long {
		times = 20
	}
	for _, v := range []struct {
		name string
		args []string
	}{{"within the host", nil}, {"over the wire", []string{overWire}}} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, "nginx"), newSink(t)
			same := []string{"TARE_INSTANCE=" + t.Name()}
			args := append(ports(c), v.args...)
			a := trace(t, s, same, args...)
			l := keepSending(t, load.Options{Addr: c.Entry, Rate: 300, Connections: 16, AppendPath: c.AppendPath})
			for range times {
				l.more(few(200))
				b := trace(t, s, same, append(args, "--replace")...)
				testkit.Until(t, 30*time.Second, "the agent before has ended", func() bool { return a.Over() })
				if status := a.Cmd.ProcessState.ExitCode(); status != 0 {
					t.Fatalf("the agent that was replaced ended with %d\n%s", status, a.Log)
				}
				a = b
			}
			l.more(few(200))
			sent := l.end()
			m := a.settle()
			r := judge(t, s.all(), shapeOf(t, "nginx"))
			noteTakeovers(t, v.name, times, int(sent.OK), r)
			if requests := int(sent.OK); r.Traces != requests || r.Split != 0 || r.Complete != requests {
				t.Errorf("%d traces of %d requests, %d complete, %d requests in several\n%v", r.Traces, requests, r.Complete, r.Split, m)
			}
		})
	}
}

// An agent that is to take over and ends instead leaves the one before it at work.
func TestHeirEnds(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	same := []string{"TARE_INSTANCE=" + t.Name()}
	a := trace(t, s, same, ports(c)...)
	b := trace(t, s, same, append(ports(c), "--replace")...)
	b.Kill()
	testkit.Until(t, 30*time.Second, "the agent before goes on", func() bool {
		return strings.Contains(a.Log.String(), "this one continues") || a.Over()
	})
	if a.Over() {
		t.Skip("the agent before had ended first") // the heir was killed too late: a machine that stands still
	}
	before := s.count()
	requests := few(100)
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: uint64(requests), AppendPath: c.AppendPath})
	m := a.settle()
	wantComplete(t, judge(t, s.since(before), shapeOf(t, "nginx")), m, requests, accounted)
}

// noteTakeovers writes what `make test-takeover` publishes.
func noteTakeovers(t *testing.T, how string, agents, requests int, r fidelity.Report) {
	t.Helper()
	path := os.Getenv("TARE_TAKEOVER_RESULTS")
	if path == "" {
		return
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{
		"how": how, "agents": agents, "requests": requests, "traces": r.Traces, "whole": r.Complete, "in_several": r.Split,
		"kernel": unix.ByteSliceToString(uts.Release[:]), "cpus": runtime.NumCPU(),
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // it is published
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(append(line, '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
