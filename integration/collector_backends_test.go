package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/testkit"
)

// deploy/collector/forward.yaml: one backend takes OTLP over gRPC, the other one
// over HTTP. The first is away: the other and the store have every span
// meanwhile, and it has them when it is back.
func TestCollectorForwards(t *testing.T) {
	t.Parallel()
	jaeger := newGRPCSink(t)
	jaeger.away.Store(true)
	tempo := newHTTPSink(t)
	metrics, args := ownMetrics(t)
	s := &stored{otlp: loopback(testkit.FreePort(t)), page: loopback(testkit.FreePort(t))}
	for key, value := range map[string]string{
		"receivers.otlp.protocols.grpc.endpoint":          s.otlp,
		"receivers.otlp.protocols.http.endpoint":          loopback(testkit.FreePort(t)),
		"receivers.zipkin.endpoint":                       loopback(testkit.FreePort(t)),
		"receivers.jaeger.protocols.grpc.endpoint":        loopback(testkit.FreePort(t)),
		"receivers.jaeger.protocols.thrift_http.endpoint": loopback(testkit.FreePort(t)),
		"extensions.tare_page.endpoint":                   s.page,
		"extensions.tare_store.directory":                 t.TempDir(),
	} {
		args = append(args, "--set", key+"="+value)
	}
	s.daemon = collectFile(t, metrics, "../deploy/collector/forward.yaml",
		[]string{"JAEGER_ENDPOINT=" + jaeger.address, "TEMPO_ENDPOINT=" + tempo.Endpoint()}, args...)

	const traces, perTrace = 200, 9
	deliver(t, dialOTLP(t, s.otlp, nil), someTraces(7, traces, perTrace))
	s.awaitSpans(t, traces*perTrace)
	testkit.Until(t, time.Minute, "the backend that is there has every span", func() bool {
		n, err := tempo.Count()
		if err != nil {
			t.Fatal(err)
		}
		return n.Spans >= traces*perTrace
	})
	if n := jaeger.count(); n > 0 {
		t.Errorf("%d spans arrived where nobody was", n)
	}
	jaeger.away.Store(false)
	testkit.Until(t, time.Minute, "the other one has them, too", func() bool { return jaeger.count() >= traces*perTrace })
	for id, n := range jaeger.traces() {
		if n != perTrace {
			t.Errorf("trace %s has %d spans, want %d", id, n, perTrace)
		}
	}
}

// deploy/collector/kafka.yaml: each message is OTLP with spans of one trace, and
// its key is the trace's id, so that a partition has the whole of it. Another
// collector reads them from there.
func TestCollectorKafka(t *testing.T) {
	t.Parallel()
	const topic, partitions = "otlp_spans", 4
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	grpcAddr := loopback(testkit.FreePort(t))
	collectFile(t, "", "../deploy/collector/kafka.yaml", []string{"KAFKA_BROKER=" + broker},
		"--set", "receivers.otlp.protocols.grpc.endpoint="+grpcAddr,
		"--set", "receivers.otlp.protocols.http.endpoint="+loopback(testkit.FreePort(t)),
		"--set", "service.telemetry.metrics.level=none")
	behind := newGRPCSink(t)
	collect(t, fmt.Sprintf(`
receivers:
  kafka: {brokers: [%q], traces: {topics: [%s], encoding: otlp_proto}, initial_offset: earliest}
exporters:
  otlp_grpc: {endpoint: %q, tls: {insecure: true}}
service:
  pipelines:
    traces: {receivers: [kafka], exporters: [otlp_grpc]}`, broker, topic, behind.address))

	const traces, perTrace = 200, 9
	deliver(t, dialOTLP(t, grpcAddr, nil), someTraces(8, traces, perTrace))

	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(time.Minute))
	defer cancel()
	spans := map[pcommon.TraceID]int{}
	in := map[pcommon.TraceID]int32{} // which partition
	used := map[int32]bool{}
	for total := 0; total < traces*perTrace; {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("%d of %d spans came: %v", total, traces*perTrace, err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			total += td.SpanCount()
			used[r.Partition] = true
			for _, rs := range td.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					for _, s := range ss.Spans().All() {
						id := s.TraceID()
						if string(r.Key) != id.String() {
							t.Fatalf("the key of a message is %q, a span in it is of trace %s", r.Key, id)
						}
						if p, ok := in[id]; ok && p != r.Partition {
							t.Errorf("trace %s is in partitions %d and %d", id, p, r.Partition)
						}
						in[id] = r.Partition
						spans[id]++
					}
				}
			}
		})
	}
	if len(spans) != traces || len(used) != partitions {
		t.Errorf("%d traces in %d partitions, want %d in %d", len(spans), len(used), traces, partitions)
	}
	for id, n := range spans {
		if n != perTrace {
			t.Errorf("trace %s has %d spans, want %d", id, n, perTrace)
		}
	}
	testkit.Until(t, time.Minute, "all came through the broker", func() bool { return behind.count() >= traces*perTrace })
	if n := len(behind.traces()); n != traces || behind.twice > 0 {
		t.Errorf("%d traces came, %d spans twice; want %d", n, behind.twice, traces)
	}
}

// chdb is ClickHouse's engine as a Python module. There is no package of its
// server.
const chdb = "chdb-core==26.9.0"

// startClickHouse runs ClickHouse's engine at an address, on a directory.
func startClickHouse(t *testing.T, address, directory string) *testkit.Child {
	t.Helper()
	python := cmp.Or(os.Getenv("CHDB_PYTHON"), "python3")
	if err := exec.CommandContext(t.Context(), python, "-c", "import chdb").Run(); err != nil {
		refuse(t, "needs %[1]s: python3 -m venv V && V/bin/pip install --no-deps %[1]s, and CHDB_PYTHON=V/bin/python", chdb)
	}
	c := testkit.Spawn(t, "ClickHouse", syscall.SIGTERM, time.Minute, os.Environ(), python, "clickhouse/server.py", address, directory)
	c.Await(time.Minute, "ClickHouse listens", func() bool { return strings.Contains(c.Log.String(), "listening") })
	return c
}

// deploy/collector/clickhouse.yaml: the table is made at the start, and has every
// span once, though ClickHouse was away for a while.
func TestCollectorClickHouse(t *testing.T) {
	t.Parallel()
	address, directory := loopback(testkit.FreePort(t)), t.TempDir()
	ask := func(query string) (rows []map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/?default_format=JSON", strings.NewReader(query))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := noProxy.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s %v", query, resp.Status, text, err)
		}
		var answer struct{ Data []map[string]any }
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%s: %s: %v", query, text, err)
		}
		return answer.Data
	}
	database := startClickHouse(t, address, directory)
	metrics, args := ownMetrics(t)
	otlp := loopback(testkit.FreePort(t))
	d := collectFile(t, metrics, "../deploy/collector/clickhouse.yaml", []string{"CLICKHOUSE_ENDPOINT=http://" + address + "?compress=none"},
		append(args, "--set", "receivers.otlp.protocols.grpc.endpoint="+otlp,
			"--set", "receivers.otlp.protocols.http.endpoint="+loopback(testkit.FreePort(t)),
			"--set", "exporters.clickhouse.sending_queue.batch.flush_timeout=500ms",
			"--set", "exporters.clickhouse.retry_on_failure.initial_interval=100ms",
			"--set", "exporters.clickhouse.retry_on_failure.max_interval=500ms")...)

	const traces, perTrace = 200, 9
	stored := func(n int) func() bool {
		return func() bool {
			return ask("SELECT count() = " + strconv.Itoa(n) + " AS all FROM otel.otel_traces")[0]["all"] == 1.0
		}
	}
	client := dialOTLP(t, otlp, nil)
	first := someTraces(9, traces, perTrace)
	deliver(t, client, first)
	testkit.Until(t, time.Minute, "ClickHouse has every span", stored(traces*perTrace))
	database.Stop()
	deliver(t, client, someTraces(10, traces, perTrace))
	d.Await(time.Minute, "it was tried in vain", func() bool { return strings.Contains(d.Log.String(), "Will retry") })
	startClickHouse(t, address, directory)
	testkit.Until(t, time.Minute, "ClickHouse has them all", stored(2*traces*perTrace))

	got := ask(`SELECT toUInt32(uniqExact(TraceId)) AS traces, toUInt32(uniqExact(TraceId, SpanId)) AS spans,
		toUInt32(countIf(ParentSpanId = '' AND SpanAttributes['tare.trace.state'] = 'complete')) AS complete FROM otel.otel_traces`)
	want := []map[string]any{{"traces": 2.0 * traces, "spans": 2.0 * traces * perTrace, "complete": 2.0 * traces}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// One span as it was sent.
	resource := first.ResourceSpans().At(1)
	span := resource.ScopeSpans().At(0).Spans().At(0)
	got = ask(fmt.Sprintf(`SELECT ServiceName, ScopeName, ScopeVersion, SpanName, SpanKind, TraceState, ParentSpanId,
		SpanAttributes['http.response.status_code'] AS status, toString(Duration) AS ns, toString(toUnixTimestamp64Nano(Timestamp)) AS start
		FROM otel.otel_traces WHERE TraceId = '%s' AND SpanId = '%s'`, span.TraceID(), span.SpanID()))
	want = []map[string]any{{
		"ServiceName": "stock", "ScopeName": "generator", "ScopeVersion": "1.2.3", "SpanName": span.Name(), "SpanKind": "Internal",
		"TraceState": "ot=th:8", "ParentSpanId": span.ParentSpanID().String(), "status": "500",
		"ns":    strconv.FormatUint(uint64(span.EndTimestamp()-span.StartTimestamp()), 10),
		"start": strconv.FormatUint(uint64(span.StartTimestamp()), 10),
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
