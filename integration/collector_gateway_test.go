package integration

import (
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span/semconv"
)

// deploy/collector/gateway.yaml before two of tracing.yaml: three senders each
// have a part of every trace; every trace comes whole, out of one of the two.
func TestCollectorGatewaySplitsNoTrace(t *testing.T) {
	t.Parallel()
	gateway := ownLoopback().String()
	tracing := [2]string{ownLoopback().String(), ownLoopback().String()}
	var sinks [2]*grpcSink
	for i, address := range tracing {
		sinks[i] = newGRPCSink(t)
		collectFile(t, "", "../deploy/collector/tracing.yaml",
			[]string{"TARE_LISTEN=" + address, "TARE_BACKEND=" + sinks[i].address},
			"--plaintext", "--set", "service.telemetry.metrics.level=none", "--set", "extensions.health_check.endpoint="+loopback(testkit.FreePort(t)))
	}
	collectFile(t, "", "../deploy/collector/gateway.yaml",
		[]string{"TARE_LISTEN=" + gateway, "TARE_COLLECTOR_1=" + tracing[0], "TARE_COLLECTOR_2=" + tracing[1]},
		"--plaintext", "--set", "service.telemetry.metrics.level=none", "--set", "extensions.health_check.endpoint="+loopback(testkit.FreePort(t)))

	const traces, perTrace = 600, 9
	all := someTraces(42, traces, perTrace)
	sent := split(all)
	// One agent for each service.
	var agents sync.WaitGroup
	for i := range all.ResourceSpans().Len() {
		client := dialOTLP(t, gateway+":4317", nil)
		agents.Go(func() {
			spans := all.ResourceSpans().At(i).ScopeSpans().At(0).Spans()
			const piece = 300
			for from := 0; from < spans.Len(); from += piece {
				td := ptrace.NewTraces()
				rs := td.ResourceSpans().AppendEmpty()
				all.ResourceSpans().At(i).Resource().CopyTo(rs.Resource())
				to := rs.ScopeSpans().AppendEmpty().Spans()
				for n := from; n < min(from+piece, spans.Len()); n++ {
					spans.At(n).CopyTo(to.AppendEmpty())
				}
				if err := export(t.Context(), client, td); err != nil {
					t.Error(err)
				}
			}
		})
	}
	agents.Wait()
	testkit.Until(t, time.Minute, "every span arrived", func() bool { return sinks[0].count()+sinks[1].count() >= len(sent) })
	first, second := sinks[0].traces(), sinks[1].traces()
	for id, n := range first {
		if n != perTrace {
			t.Errorf("trace %s: %d spans at one collector, %d at the other", id, n, second[id])
		}
	}
	if len(first)+len(second) != traces || len(first) < traces/5 || len(second) < traces/5 {
		t.Errorf("%d traces at one collector and %d at the other, of %d", len(first), len(second), traces)
	}
	complete := 0
	for i, ids := range []map[string]int{first, second} {
		for id := range ids {
			root, _ := sinks[i].span(t, id, spanID(1).String())
			if state, _ := root.Attributes().Get(semconv.TraceState); state.AsString() == semconv.StateComplete {
				complete++
			}
		}
	}
	if complete != traces {
		t.Errorf("%d of %d traces are complete", complete, traces)
	}
}
