package tracerprocessor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/collector/storeexporter"
	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/store"
)

// killedEnv names the directory of the store in which a child process, this test's binary,
// writes until it is killed.
const (
	killedEnv   = "TARE_TRACER_TEST_CHILD"
	killedSpans = 5 // of a trace
)

// chain is the components of the default configuration that hold spans: the processor with its
// journal, the exporter with its queue, the store.
func chain(t testing.TB, dir string, sync bool) (consume func(ptrace.Traces) error, e interface{ Store() *store.Store }, all []component.Component) {
	t.Helper()
	ext := storeIn(t, dir, sync)
	cfg := storeexporter.NewFactory().CreateDefaultConfig().(*storeexporter.Config)
	cfg.Queue.Get().WaitForResult = true
	x, err := storeexporter.NewFactory().CreateTraces(context.Background(), exportertest.NewNopSettings(storeexporter.Type), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(context.Background(), extensions{storeID: ext}); err != nil {
		t.Fatal(err)
	}
	p := journaled(t, ext, nil, x)
	return func(td ptrace.Traces) error { return p.ConsumeTraces(context.Background(), td) },
		ext.(storeextension.Extension), []component.Component{p, x, ext}
}

// TestKilledChild is the child of TestKilled: it sends until it is killed, and says on its
// standard output which traces were acknowledged. Every third trace lacks a span, and waits for
// it; the others wait too, since spans of SDKs do not say how many there are.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(killedEnv)
	if dir == "" {
		t.Skip("is started by TestKilled")
	}
	from, err := strconv.ParseUint(os.Getenv(killedEnv+"_FROM"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	consume, _, _ := chain(t, dir, os.Getenv(killedEnv+"_SYNC") != "")
	var next atomic.Uint64
	next.Store(from)
	for range 4 {
		go func() {
			for {
				first := next.Add(10) - 10
				td := ptrace.NewTraces()
				for n := first; n < first+10; n++ {
					for i := range uint64(killedSpans) {
						parent := 10*n + 1
						if i == 0 {
							parent = n % 3 // 0: a root; else the parent is not there
						}
						sp := add(td, n, 10*n+i+1, parent)
						now := pcommon.NewTimestampFromTime(time.Now()) // or retention removes it
						sp.SetStartTimestamp(now)
						sp.SetEndTimestamp(now)
					}
				}
				if err := consume(td); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				_, _ = os.Stdout.WriteString("ack " + strconv.FormatUint(first, 10) + "\n") // one call: whole or not there
			}
		}()
	}
	select {}
}

// kill -9 under load: every span that was acknowledged is stored when the collector has run
// again, once, whether it waited in tare_tracer, was passed on, or in the exporter's queue.
func TestKilled(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprintf("sync=%v", sync), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			var acknowledged []uint64
			from, stored := uint64(1), 0
			for range 3 {
				_, e, all := chain(t, dir, sync) // what the last one left goes on to wait
				stored = int(e.Store().Stats().Spans)
				stop(t, all...)
				acked := killOne(t, dir, sync, from)
				acknowledged = append(acknowledged, acked...)
				from += 1_000_000
			}
			_, e, all := chain(t, dir, sync)
			want := len(acknowledged) * 10 * killedSpans
			select {
			case <-all[0].(*tracer).journalRead:
			case <-time.After(time.Minute):
				t.Fatal("the journal was not read within a minute")
			}
			stop(t, all[0], all[1]) // which passes on all that waits
			if n := all[0].(*tracer).refused.Load(); n > 0 {
				t.Errorf("%d spans were refused", n)
			}
			lost, double := 0, 0
			for _, first := range acknowledged {
				for n := first; n < first+10; n++ {
					l, d := held(t, e.Store(), n)
					lost, double = lost+l, double+d
				}
			}
			stop(t, all[2])
			t.Logf("3 kills: %d spans acknowledged, %d lost, %d there twice; %d were stored before the last kill", want, lost, double, stored)
			if want == 0 || lost > 0 || double > 0 {
				t.Errorf("of %d acknowledged spans %d are lost and %d are there twice", want, lost, double)
			}
		})
	}
}

// held returns how many spans of the trace are not stored, and how many more than once.
func held(t *testing.T, s *store.Store, n uint64) (lost, double int) {
	t.Helper()
	probe := ptrace.NewTraces()
	id := add(probe, n, 1, 0).TraceID()
	td, err := s.Trace(t.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return killedSpans, 0
	}
	if err != nil {
		t.Fatal(err)
	}
	ids := map[pcommon.SpanID]bool{}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, sp := range ss.Spans().All() {
				ids[sp.SpanID()] = true
			}
		}
	}
	return killedSpans - len(ids), td.SpanCount() - len(ids)
}

// killOne runs a child, kills it when it has acknowledged enough, and returns what it had.
func killOne(t *testing.T, dir string, sync bool, from uint64) (acknowledged []uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledChild$")
	cmd.Env = append(os.Environ(), killedEnv+"="+dir, killedEnv+"_FROM="+strconv.FormatUint(from, 10))
	if sync {
		cmd.Env = append(cmd.Env, killedEnv+"_SYNC=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "ack ")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Errorf("the child says %q", lines.Text())
		}
		if acknowledged = append(acknowledged, n); len(acknowledged) == 200 {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the child was not killed: %v, %d requests", err, len(acknowledged))
	}
	return acknowledged
}
