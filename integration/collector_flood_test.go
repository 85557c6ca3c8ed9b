package integration

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/workloads"
)

// flooded is a collector under OTLP/HTTP as agents send it, with what was
// answered so far.
type flooded struct {
	*stored
	http            string
	body            func(dst []byte, n uint64) []byte
	next            uint64  // the number of the next body
	taken, declined uint64  // spans
	idle            float64 // memory before, MiB
	slow            controlGroup
	floodResult
}

// floodResult is what a flood came to. `make collector-cost` has it written to
// the file in TARE_FLOOD_RESULTS, a line for each test.
type floodResult struct {
	Name      string  `json:"name"`
	CPU       float64 `json:"cpu"`          // what the collector had of one
	Limit     float64 `json:"limit_mib"`    // of memory_limiter
	Takes     float64 `json:"takes"`        // spans/s without a flood
	Offered   uint64  `json:"offered"`      // spans, in Seconds
	OK        uint64  `json:"ok"`           // spans taken
	Refused   uint64  `json:"refused"`      // spans, by status 503
	Unsent    uint64  `json:"unsent"`       // spans of requests that waited for others until the end
	Seconds   float64 `json:"seconds"`      // of the flood
	Idle      float64 `json:"idle_mib"`     // memory of the process before
	Most      float64 `json:"most_mib"`     // its peak
	Recovered float64 `json:"recovered_s"`  // after the flood, until all load was taken again
	Lost      float64 `json:"lost"`         // spans taken and then lost, all counted
	Backend   bool    `json:"with_backend"` // one that did not answer during the flood
}

func (f *flooded) report(t *testing.T) {
	t.Helper()
	file := os.Getenv("TARE_FLOOD_RESULTS")
	if file == "" || t.Failed() {
		return
	}
	line, err := json.Marshal(f.floodResult)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // results are for everybody
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}

const (
	floodLimit = 256 // MiB
	// floodSlack is what a process may take above its limit and what it takes
	// when idle: memory_limiter looks at Go's heap, and at intervals; what came in
	// between, and garbage, is beyond it. With a fraction of a CPU one garbage
	// collection takes 4 s, and what the 128 connections send meanwhile is in
	// addition. The flood offers gigabytes: an unbounded process is far above.
	floodSlack = 256 // MiB
)

// flood runs the default configuration with a limit of memory that a flood
// reaches, on so much of a CPU.
func flood(t *testing.T, cpu float64, args ...string) *flooded {
	t.Helper()
	need(t)
	group := newCPUGroup(t, cpu)
	f := &flooded{slow: group, http: loopback(testkit.FreePort(t)), body: workloads.Traffic(), next: 1,
		floodResult: floodResult{Name: t.Name(), CPU: cpu, Limit: floodLimit}}
	f.stored = storeIn(t, t.TempDir(), append([]string{
		"--set", "receivers.otlp.protocols.http.endpoint=" + f.http,
		"--set", "processors.memory_limiter.limit_mib=" + itoa(floodLimit),
		"--set", "processors.memory_limiter.spike_limit_mib=" + itoa(floodLimit/4),
	}, args...)...)
	f.idle = peak(t, f.Cmd.Process.Pid)
	f.slow.add(t, f.Cmd.Process.Pid)
	return f
}

// send sends bodies. Every answer is either yes, or a no that tells the sender
// to try again.
func (f *flooded) send(t *testing.T, o load.Options) load.Result {
	t.Helper()
	o.Addr, o.First, o.Timeout = f.http, f.next, time.Minute
	o.AppendPath = func(dst []byte, _ uint64) []byte { return append(dst, "/v1/traces"...) }
	o.AppendBody = f.body
	o.Header = map[string]string{"Content-Type": "application/x-protobuf"}
	r, err := load.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f.next = r.Next
	f.taken += r.OK * workloads.SpansPerBody
	f.declined += r.Failed * workloads.SpansPerBody
	if r.Aborted > 0 || r.Errors["status 503"] != r.Failed {
		t.Errorf("%d aborted, %d failed: %v; want nothing but status 503", r.Aborted, r.Failed, r.Errors)
	}
	return r
}

// drown finds what the collector takes, and then offers it ten times as much.
func (f *flooded) drown(t *testing.T) (takes float64) {
	t.Helper()
	calm := f.send(t, load.Options{Connections: 8, Duration: 5 * time.Second})
	takes = float64(calm.OK) / calm.Elapsed.Seconds()
	r := f.send(t, load.Options{Connections: 128, Rate: 10 * takes, Duration: 20 * time.Second})
	most := peak(t, f.Cmd.Process.Pid)
	t.Logf("it takes %.0f spans/s; of %d bodies in %v %d were taken, %d refused, %d held back; memory %.0f MiB idle, %.0f at most",
		takes*workloads.SpansPerBody, r.Offered, r.Elapsed.Round(time.Second/10), r.OK, r.Failed, r.Unsent, f.idle, most)
	f.Takes, f.Idle, f.Most, f.Seconds = takes*workloads.SpansPerBody, f.idle, most, r.Elapsed.Seconds()
	f.Offered, f.OK = r.Offered*workloads.SpansPerBody, r.OK*workloads.SpansPerBody
	f.Refused, f.Unsent = r.Failed*workloads.SpansPerBody, r.Unsent*workloads.SpansPerBody
	if f.slow.throttled(t) == 0 {
		t.Error("it always had the CPU that it wanted: its control group limits nothing")
	}
	if over := r.Failed + r.Unsent; over < r.OK {
		t.Errorf("%d bodies were taken and only %d not: this was no flood", r.OK, over)
	}
	if limit := f.idle + floodLimit + floodSlack; most > limit {
		t.Errorf("%.0f MiB, above %.0f", most, limit)
	}
	return takes
}

// recover waits until a quarter of what the collector takes is taken for some
// seconds, with nothing of it refused. What is left of the flood may take its
// time: traces of which a part was refused wait for it, 10 s by default.
func (f *flooded) recover(t *testing.T, takes float64) {
	t.Helper()
	over := time.Now()
	var clean time.Duration
	var r load.Result
	testkit.Until(t, 30*time.Second, "load is taken again", func() bool {
		clean = time.Since(over)
		r = f.send(t, load.Options{Connections: 4, Rate: max(takes/4, 2), Duration: 5 * time.Second})
		return r.OK > 0 && r.Failed == 0
	})
	f.Recovered = clean.Seconds()
	t.Logf("from %v after the flood on, all load was taken, %d bodies", clean, r.OK)
}

// exporter is a metric of one exporter.
func (d *daemon) exporter(metric, id string) float64 {
	d.T.Helper()
	return d.labelled(metric, `exporter="`+id+`"`)
}

// answered requires that the collector counted what its clients saw, and that
// nothing waits in tare_tracer any more.
func (f *flooded) answered(t *testing.T) {
	t.Helper()
	testkit.Until(t, time.Minute, "no trace waits", func() bool { return f.metric("tare_tracer_pending_spans") == 0 })
	accepted := f.metric("otelcol_receiver_accepted_spans")
	refused := f.metric("otelcol_receiver_refused_spans") + f.metric("otelcol_receiver_failed_spans")
	undecoded := f.labelled("tare_receiver_refused_requests", `reason="busy"`) * workloads.SpansPerBody
	if accepted != float64(f.taken) || refused+undecoded != float64(f.declined) {
		t.Errorf("%v spans accepted, %v refused, %v before they were decoded; clients were told %d and %d",
			accepted, refused, undecoded, f.taken, f.declined)
	}
	if limited := f.metric("otelcol_processor_memory_limiter_refused_spans"); limited != refused {
		t.Errorf("%v spans refused, %v of them for lack of memory", refused, limited)
	}
}

// settled waits until an exporter has done away with all spans: done, or lost
// and counted.
func (f *flooded) settled(t *testing.T, id string, done func() float64) (lost float64) {
	t.Helper()
	var n float64
	testkit.Until(t, time.Minute, "every span that was accepted is accounted for at "+id, func() bool {
		n = done()
		lost = f.exporter("otelcol_exporter_enqueue_failed_spans", id) + f.exporter("otelcol_exporter_send_failed_spans", id)
		return n+lost >= float64(f.taken)
	})
	t.Logf("%s: of %d spans accepted %v done, %v lost", id, f.taken, n, lost)
	if n+lost != float64(f.taken) {
		t.Errorf("%s: %v spans done and %v lost, of %d accepted", id, n, lost, f.taken)
	}
	return lost
}

// A flood of ten times what a collector takes that has a fifth of a CPU: memory
// stays bounded, every span is stored, or refused so that its sender sees it, or
// counted as lost; and when the flood is over, it is taken again.
func TestCollectorFlood(t *testing.T) {
	t.Parallel()
	needLong(t)
	f := flood(t, 0.2)
	takes := f.drown(t)
	if f.declined == 0 {
		t.Error("nothing was refused")
	}
	f.recover(t, takes)
	f.answered(t)
	lost := f.settled(t, "tare_store", func() float64 { return f.metric("tare_store_written_spans") })
	if dropped := f.metric("tare_tracer_dropped_spans_total"); dropped != lost {
		t.Errorf("tare_tracer counts %v lost spans, the exporter %v", dropped, lost)
	}
	f.Lost = lost
	f.report(t)
}

// The same with a backend beside the store that does not answer: it costs the
// store nothing. What does not fit into the backend's queue is counted, what
// does arrives when it answers again.
func TestCollectorFloodSlowBackend(t *testing.T) {
	t.Parallel()
	needLong(t)
	backend := newHTTPSink(t)
	backend.Stall(true)
	f := flood(t, 0.4,
		"--set", "exporters.otlp_http={endpoint: '"+backend.Endpoint()+"', timeout: 2s, retry_on_failure: {initial_interval: 100ms, max_interval: 1s},"+
			" sending_queue: {sizer: items, queue_size: 20000}}",
		"--set", "service.pipelines.traces.exporters=[tare_store, otlp_http]")
	takes := f.drown(t)
	backend.Stall(false)
	f.recover(t, takes)
	f.answered(t)
	lost := f.settled(t, "otlp_http", func() float64 { return f.exporter("otelcol_exporter_sent_spans", "otlp_http") })
	if lost == 0 {
		t.Error("the backend's queue lost nothing: did it stand still?")
	}
	if lost := f.settled(t, "tare_store", func() float64 { return f.metric("tare_store_written_spans") }); lost > 0 {
		t.Errorf("the store lost %v spans", lost)
	}
	arrived, err := backend.Count()
	if err != nil {
		t.Fatal(err)
	}
	// Those that were answered too late came again.
	if sent := f.exporter("otelcol_exporter_sent_spans", "otlp_http"); float64(arrived.Spans) < sent {
		t.Errorf("%d spans arrived, %v were sent", arrived.Spans, sent)
	}
	f.Backend, f.Lost = true, lost
	f.report(t)
}
