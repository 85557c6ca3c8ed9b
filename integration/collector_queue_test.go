package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// deploy/collector/queue.yaml: what was acknowledged outlives kill -9, with the
// backend away all the while.
func TestCollectorQueueOnDisk(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	sink.away.Store(true)
	grpcAddr, httpAddr := loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t))
	env := []string{"TARE_BACKEND=" + sink.address, "TARE_QUEUE=" + t.TempDir()}
	run := func() *daemon {
		return collectFile(t, "", "../deploy/collector/queue.yaml", env,
			"--set", "receivers.otlp.protocols.grpc.endpoint="+grpcAddr,
			"--set", "receivers.otlp.protocols.http.endpoint="+httpAddr,
			"--set", "service.telemetry.metrics.level=none")
	}
	sent := map[spanKey][]byte{}
	for round := range 3 {
		d := run()
		client := dialOTLP(t, grpcAddr, nil)
		for i := range 20 {
			for key, b := range deliver(t, client, someTraces(uint64(1000*round+i)+1, 10, 10)) {
				sent[key] = b
			}
		}
		d.Kill() // at once after the last acknowledgement
	}
	if n := sink.count(); n > 0 {
		t.Fatalf("%d spans arrived where nobody was", n)
	}
	sink.away.Store(false)
	run()
	sink.wantSame(t, sent)
}

// A backend that is away longer than memory lasts: what does not fit is refused,
// to senders that can try again, and counted.
func TestCollectorQueueFull(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	sink.away.Store(true)
	grpcAddr := loopback(testkit.FreePort(t))
	d := collect(t, fmt.Sprintf(`
receivers:
  otlp: {protocols: {grpc: {endpoint: %q}}}
exporters:
  otlp_grpc:
    endpoint: %q
    tls: {insecure: true}
    sending_queue: {sizer: items, queue_size: 1000, num_consumers: 1}
    retry_on_failure: {initial_interval: 50ms, max_interval: 100ms, max_elapsed_time: 0s}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_grpc]}`, grpcAddr, sink.address))
	client := dialOTLP(t, grpcAddr, nil)
	taken, refused := map[spanKey][]byte{}, 0
	for i := range 30 {
		td := someTraces(uint64(i)+1, 10, 10)
		if err := export(t.Context(), client, td); err != nil {
			refused += td.SpanCount()
			continue
		}
		for key, b := range split(td) {
			taken[key] = b
		}
	}
	if refused < 1800 || len(taken) < 900 {
		t.Errorf("%d spans taken and %d refused, with a queue for 1000", len(taken), refused)
	}
	testkit.Until(t, deadline, "refused spans are counted", func() bool {
		return d.metric("otelcol_exporter_enqueue_failed_spans") == float64(refused)
	})
	sink.away.Store(false)
	begin := time.Now()
	sink.wantSame(t, taken)
	t.Logf("all that was taken arrived %v after the backend came back", time.Since(begin))
}
