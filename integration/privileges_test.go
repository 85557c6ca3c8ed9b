package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// An agent that root started keeps what it needs, in all its threads, and traces with that.
func TestPrivilegesGivenUp(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", a.PID()))
	if err != nil || len(threads) < 2 {
		t.Fatal(threads, err)
	}
	var keep uint64
	for _, c := range []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_NICE} {
		keep |= 1 << c
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch key {
			case "CapEff", "CapPrm", "CapInh", "CapAmb":
				if has, err := strconv.ParseUint(value, 16, 64); err != nil || has&^keep != 0 {
					t.Errorf("%s: %s %s, more than %x", path, key, value, keep)
				}
			case "NoNewPrivs":
				if value != "1" {
					t.Errorf("%s: NoNewPrivs %s", path, value)
				}
			case "Seccomp":
				if value != "2" {
					t.Errorf("%s: no filter of system calls: %s", path, value)
				}
			}
		}
	}
	requests := few(100)
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: uint64(requests), AppendPath: c.AppendPath})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, accounted)
}

// SIGHUP reloads from the beginning on: it does not end an agent that still loads its
// programs.
func TestHangupAtTheStart(t *testing.T) {
	t.Parallel()
	need(t)
	s := newSink(t)
	a := launch(t, s, nil, "--port", "80", "--print", "tree")
	testkit.Until(t, deadline, "the agent begins", func() bool { return a.Log.String() != "" })
	a.signal(syscall.SIGHUP)
	testkit.Until(t, deadline, "it reloads", func() bool { return strings.Contains(a.Log.String(), "msg=reloaded") || a.Over() })
	if a.Over() {
		t.Errorf("it ended: %v\n%s", a.Cmd.ProcessState, a.Log)
	}
}
