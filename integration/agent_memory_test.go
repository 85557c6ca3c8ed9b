package integration

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// peak is the most memory that a process has held, in MiB.
func peak(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// fromDisk has a program's file read from the disk when it begins, as on a node: of one that was just built, more
// of its pages are in memory, and count as those of who runs it.
func fromDisk(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err == nil {
		err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A node's agent is tare-agent: the packages of the collector, linked into tare,
// cost more memory than all of the agent.
func TestSmallAgentIsSmall(t *testing.T) {
	alone(t, "a page of a program counts less where others run it, too")
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	idle := map[string]float64{}
	for name, argv := range map[string][]string{
		"tare-agent": {filepath.Join(bin, "tare-agent")},
		"tare":       {tare, "agent"},
	} {
		argv = append(argv, ports(c)...)
		for range 3 { // when garbage is collected is chance
			fromDisk(t, argv[0])
			a := launchAs(t, s, nil, argv...)
			testkit.Until(t, 30*time.Second, name+" traces", a.healthy)
			a.settle()
			p := peak(t, a.PID())
			a.Stop()
			if idle[name] == 0 || p < idle[name] {
				idle[name] = p
			}
		}
	}
	t.Logf("least peak of an idle agent that traces two services, MiB: %v", idle)
	if idle["tare-agent"] > 60 {
		t.Errorf("tare-agent holds %.1f MiB, more than the 60 that a node's agent may", idle["tare-agent"])
	}
	if idle["tare-agent"] > idle["tare"]*2/3 {
		t.Errorf("tare-agent holds %.1f MiB and tare %.1f: is the second binary worth it? docs/adr/0014", idle["tare-agent"], idle["tare"])
	}
}

// The most that a node's agent holds under the two loads that fill its tables and its queue: 5,000 connections, and no
// receiver for its spans.
func TestMemoryUnderLoad(t *testing.T) {
	alone(t, "a page of a program counts less where others run it, too")
	need(t)
	away := "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + loopback(testkit.FreePort(t))
	for name, load := range map[string]struct {
		env  []string
		load load.Options
	}{
		"5,000 connections":    {nil, load.Options{Connections: 5000, Requests: uint64(few(40_000)), Timeout: 30 * time.Second}},
		"the receiver is away": {[]string{away}, load.Options{Connections: 32, Requests: uint64(few(60_000))}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := start(t, "nginx"), newSink(t)
			fromDisk(t, filepath.Join(bin, "tare-agent"))
			a := trace(t, s, load.env, ports(c)...)
			load.load.Addr, load.load.AppendPath = c.Entry, c.AppendPath
			send(t, load.load)
			p := peak(t, a.PID())
			t.Logf("%.1f MiB", p)
			a.Kill()
			if p > 60 {
				t.Errorf("the agent held %.1f MiB, more than the 60 that a node's agent may", p)
			}
		})
	}
}
