package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// stored runs the default configuration with a store of the test's own, on ports
// of its own.
type stored struct {
	*daemon
	otlp, http, page string // addresses: of OTLP by gRPC and by HTTP, of the page
}

func storeIn(t *testing.T, dir string, args ...string) *stored {
	t.Helper()
	s := &stored{otlp: loopback(testkit.FreePort(t)), http: loopback(testkit.FreePort(t)), page: loopback(testkit.FreePort(t))}
	metrics, own := ownMetrics(t)
	s.daemon = startDaemon(t, metrics, nil, slices.Concat([]string{tare, "collector",
		"--set", "receivers.otlp.protocols.grpc.endpoint=" + s.otlp,
		"--set", "receivers.otlp.protocols.http.endpoint=" + s.http,
		"--set", "extensions.tare_page.endpoint=" + s.page,
		"--set", "extensions.tare_retro.endpoint=" + loopback(testkit.FreePort(t)),
		"--set", "extensions.tare_store.directory=" + dir,
	}, own, args)...)
	return s
}

// get reads JSON from the query API.
func (s *stored) get(path string, into any) error {
	resp, err := noProxy.Get("http://" + s.page + path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// awaitSpans waits until so many spans can be found.
func (s *stored) awaitSpans(t *testing.T, n int) {
	t.Helper()
	var stats struct{ Spans int }
	var err error
	testkit.Until(t, time.Minute, fmt.Sprintf("%d spans are stored", n), func() bool {
		err = s.get("/api/v1/stats", &stats)
		return err == nil && stats.Spans >= n
	})
	if stats.Spans != n {
		t.Errorf("%d spans are stored, want %d", stats.Spans, n)
	}
}

// The default configuration: what came by OTLP can be found by the query API, and
// after kill -9 it still can.
func TestCollectorStoresAndSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storeIn(t, dir)
	const traces, perTrace = 200, 9
	deliver(t, dialOTLP(t, s.otlp, nil), someTraces(5, traces, perTrace))
	s.awaitSpans(t, traces*perTrace)
	testkit.Until(t, deadline, "the store's numbers are among the metrics", func() bool {
		return s.metric("tare_store_written_spans") == traces*perTrace && s.metric("tare_store_spans") == traces*perTrace
	})
	if out := refuses(t, nil, "collector", "--set", "extensions.tare_store.directory="+dir, "--set", "service.telemetry.metrics.level=none"); !strings.Contains(out, dir) || !strings.Contains(out, "another tare") {
		t.Errorf("a second one on the same store said: %s", out)
	}
	s.Kill()

	s = storeIn(t, dir)
	s.awaitSpans(t, traces*perTrace)
	for n := range traces {
		id := fmt.Sprintf("%016x%016x", 5, n+1)
		var trace struct {
			State string
			Spans []struct{ Name string }
		}
		if err := s.get("/api/v1/traces/"+id, &trace); err != nil {
			t.Fatal(err)
		}
		if len(trace.Spans) != perTrace || trace.State != "complete" {
			t.Fatalf("trace %s: %d spans, %q", id, len(trace.Spans), trace.State)
		}
	}
}

// A full disk: the collector goes on, what it cannot store is counted, and what
// it has stored is there.
func TestCollectorDiskFull(t *testing.T) {
	t.Parallel()
	need(t, "mount", "umount")
	dir := t.TempDir()
	// The store keeps 112 MiB free for what it has to write to stay whole.
	sh(t, "mount", "-t", "tmpfs", "-o", "size=144m,mode=0700", "tare-test", dir)
	t.Cleanup(func() {
		if out, err := exec.Command(program("umount"), dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	s := storeIn(t, dir, "--set", "extensions.tare_store.retention.size=0")
	client := dialOTLP(t, s.otlp, nil)
	// A machine that is slow gathers more for one write than there is room for, and writes
	// nothing at all: what is to be found comes before.
	const small = 100
	if err := export(t.Context(), client, someTraces(10, small/2, 2)); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, time.Minute, "the first spans are stored", func() bool {
		return s.metric("tare_store_written_spans") == small
	})
	sent := small
	testkit.Until(t, 3*time.Minute, "the disk is full", func() bool {
		td := someTraces(uint64(1000+sent), 100, 20)
		for _, rs := range td.ResourceSpans().All() {
			for _, sp := range rs.ScopeSpans().At(0).Spans().All() {
				// What does not compress.
				sp.Attributes().PutEmptyBytes("noise").FromRaw(noise(uint64(sent), 1000))
				sent++
			}
		}
		if err := export(t.Context(), client, td); err != nil {
			sent -= td.SpanCount() // there is no room for them in the journal: they were not taken
		}
		return s.metric("otelcol_exporter_send_failed_spans") > 0
	})
	testkit.Until(t, time.Minute, "every span is either stored or counted", func() bool {
		return s.metric("tare_store_written_spans")+s.metric("otelcol_exporter_send_failed_spans") == float64(sent)
	})
	if refused := s.metric("tare_store_refused_spans"); refused == 0 {
		t.Error("the store counted no refused spans")
	}
	var found struct{ Traces []struct{} }
	if err := s.get("/api/v1/traces?last=24h&limit=5", &found); err != nil || len(found.Traces) != 5 {
		t.Errorf("a search finds %d traces, %v", len(found.Traces), err)
	}
	testkit.Until(t, time.Minute, "spans are taken again", func() bool {
		return export(t.Context(), client, someTraces(1, 1, 2)) == nil
	})
}
