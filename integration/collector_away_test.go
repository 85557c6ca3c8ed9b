package integration

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// resident is what a process holds in memory now, in MiB.
func resident(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + itoa(pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

// receiving is a collector that keeps what comes at grpc and http.
type receiving struct{ grpc, http string }

// collects stores what comes; accepts says whether it has room for anything.
func (r receiving) collects(t *testing.T, args ...string) *stored {
	t.Helper()
	s := storeIn(t, t.TempDir(), append([]string{
		"--set", "receivers.otlp.protocols.grpc.endpoint=" + r.grpc,
		"--set", "receivers.otlp.protocols.http.endpoint=" + r.http,
		"--set", "processors.tare_tracer.expiry=5s", // long enough for what comes twice
	}, args...)...)
	s.otlp = r.grpc
	return s
}

// A collector that is away, refuses, or hangs, under agents that trace every
// request: no request of the traced chain fails, the agent's memory stays flat
// once its queue is full, every span is either at the collector or counted; and
// when the collector is well, the agent exports again.
func TestCollectorAway(t *testing.T) {
	t.Parallel()
	need(t)
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		for _, c := range []struct {
			name string
			// trouble begins before the load; well ends it and returns a
			// collector that takes spans.
			trouble func(t *testing.T, r receiving) (well func() *stored)
		}{
			{"nobody listens", func(t *testing.T, r receiving) func() *stored {
				return func() *stored { return r.collects(t) }
			}},
			{"refuses", func(t *testing.T, r receiving) func() *stored {
				// Less memory than it has when it begins.
				d := r.collects(t, "--set", "processors.memory_limiter={check_interval: 100ms, limit_mib: 2, spike_limit_mib: 1}")
				testkit.Until(t, deadline, "it refuses", func() bool {
					return strings.Contains(d.Log.String(), "Refusing data")
				})
				return func() *stored {
					if d.metric("otelcol_receiver_refused_spans") == 0 {
						t.Error("it refused nothing")
					}
					d.Stop()
					return r.collects(t)
				}
			}},
			{"hangs", func(t *testing.T, r receiving) func() *stored {
				d := r.collects(t)
				pause(t, d.daemon)
				return func() *stored {
					if err := d.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
						t.Fatal(err)
					}
					return d
				}
			}},
		} {
			t.Run(protocol+" "+c.name, func(t *testing.T) {
				t.Parallel()
				away(t, protocol, c.trouble)
			})
		}
	}
}

// pause stops the process until the test lets it go on, or ends.
func pause(t *testing.T, d *daemon) {
	t.Helper()
	if err := d.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Cmd.Process.Signal(syscall.SIGCONT) }) // or it has ended
}

func away(t *testing.T, protocol string, trouble func(*testing.T, receiving) func() *stored) {
	r := receiving{grpc: loopback(testkit.FreePort(t)), http: loopback(testkit.FreePort(t))}
	at := r.http
	if protocol == "grpc" {
		at = r.grpc
	}
	_, port, _ := net.SplitHostPort(at)
	c := start(t, "nginx")
	well := trouble(t, r)
	// A name that resolves, as a Kubernetes service's does without a pod.
	a := trace(t, &sink{url: "http://localhost:" + port}, []string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_EXPORTER_OTLP_TIMEOUT=1000", "TARE_QUEUE=8192",
	}, ports(c)...)
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 16, Rate: 1500, AppendPath: c.AppendPath})
	testkit.Until(t, time.Minute, "the queue is full", func() bool { return a.mustMetrics().lost("queue_full") > 1000 })
	full := resident(t, a.PID())
	for range 2 {
		l.more(5000)
	}
	most := resident(t, a.PID())
	t.Logf("%.1f MiB when the queue was full, %.1f after 10,000 requests more", full, most)
	if most > full+16 {
		t.Errorf("the agent grew from %.1f to %.1f MiB while nothing was exported", full, most)
	}
	if !a.healthy() {
		t.Error("the agent says that it is not well")
	}

	s := well()
	before := a.mustMetrics().int("tare_export_spans_total")
	testkit.Until(t, time.Minute, "spans are exported again", func() bool {
		return a.mustMetrics().int("tare_export_spans_total") > before+1000
	})
	l.end() // no request has failed
	var m metrics
	var lost int
	testkit.Until(t, time.Minute, "every span is exported or counted", func() bool {
		m, lost = a.mustMetrics(), 0
		for _, reason := range []string{"queue_full", "export_failed", "rejected"} {
			lost += m.lost(reason)
		}
		// Spans whose ends found no room wait for them.
		return m.idle(m.lost("ring_full")) && m["tare_export_queue_bytes"] == 0 &&
			m.int("tare_spans_total") == m.int("tare_export_spans_total")+lost
	})
	exported := m.int("tare_export_spans_total")
	t.Logf("%d spans: %d exported, %d lost", m.int("tare_spans_total"), exported, lost)
	// A batch that was taken and not answered in time comes again.
	testkit.Until(t, time.Minute, fmt.Sprintf("%d spans are stored", exported), func() bool {
		exported = a.mustMetrics().int("tare_export_spans_total")
		return s.metric("tare_tracer_pending_spans") == 0 && s.metric("tare_store_written_spans") >= float64(exported)
	})
	written, received := s.metric("tare_store_written_spans"), s.metric("otelcol_receiver_accepted_spans")
	twice := s.labelled("tare_tracer_dropped_spans_total", `reason="duplicate"`)
	if written != float64(exported) || received != written+twice {
		t.Errorf("%v spans are stored, %d were exported; %v came, %v of them twice", written, exported, received, twice)
	}
	a.Stop() // while somebody takes the spans that wait for their ends
}
