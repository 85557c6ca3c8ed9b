package record

// Metric is one thing that is measured of every run.
type Metric struct {
	Key   string // in Run.Values; its end is the unit
	Name  string // for people
	Unit  string
	About string // how it is measured
	// Worse is +1 if a greater value is worse, -1 if a smaller one is, 0 if
	// neither.
	Worse int
	// Additive metrics may be 0 without a tracer (bytes exported, CPU of the
	// tracer): they are compared by difference, all others by ratio.
	Additive bool
}

// Keys of the metrics. The CPU ones are divided by the requests answered within
// the window.
const (
	Throughput      = "throughput_rps"
	Offered         = "offered_rps"
	ErrorShare      = "error_share"
	P50             = "p50_ms"
	P95             = "p95_ms"
	P99             = "p99_ms"
	Max             = "max_ms"
	CPUService      = "cpu_service_us"
	CPUEntry        = "cpu_entry_us"
	CPUMean         = "cpu_mean_us"
	CPUTracer       = "cpu_tracer_us"
	CPUMachine      = "cpu_machine_us"
	CPUTraced       = "cpu_traced_us"
	CPUTracerSpan   = "cpu_tracer_span_us"
	CPULab          = "cpu_lab_us"
	CoresService    = "cores_service"
	CoresTracer     = "cores_tracer"
	CoresMachine    = "cores_machine"
	CoresMeter      = "cores_meter"
	Stolen          = "stolen_cores"
	MemService      = "mem_service_mib"
	MemServicePeak  = "mem_service_peak_mib"
	MemTracer       = "mem_tracer_mib"
	MemTracerPeak   = "mem_tracer_peak_mib"
	StoreRate       = "store_mb_per_h"
	NetOut          = "net_out_bytes"
	NetOutRate      = "net_out_mbps"
	NetWithin       = "net_within_bytes"
	NetExport       = "net_export_bytes"
	NetReported     = "net_reported_bytes"
	SpansReceived   = "spans_received_per_s"
	SpansPerRequest = "spans_per_request"
	SpansDropped    = "spans_dropped"
	SampledShare    = "sampled_share"
	SampledAsked    = "sampled_asked"
	SampledDecided  = "sampled_decided"
	RateMean        = "rate_mean"
	RatePeak        = "rate_peak"
	FailedTraced    = "failed_traced_share"
	Complete        = "complete_share"
	Wrong           = "wrong_traces"
	Covered         = "covered_share"
	LinkedShare     = "linked_share"
	UnlinkedShare   = "unlinked_share"
	WrongCalls      = "wrong_calls"
	CausePrecision  = "cause_precision"
	CauseRecall     = "cause_recall"
	CauseFirst      = "cause_first"
	KernelPrograms  = "kernel_programs_us"
	GeneratorLagP99 = "generator_lag_p99_ms"

	CPUGenerator     = "cpu_generator_us"
	CPUSink          = "cpu_sink_us"
	CPUAgent         = "cpu_agent_us"
	CPUCollector     = "cpu_collector_us"
	CoresCollector   = "cores_collector"
	MemCollector     = "mem_collector_mib"
	DiskCollector    = "disk_collector_bytes"
	CollectorQueue   = "collector_queue_spans"
	CollectorPending = "collector_pending_spans"
	ServerThroughput = "server_throughput_rps"
	ServerP50        = "server_p50_ms"
	ServerP95        = "server_p95_ms"
	ServerP99        = "server_p99_ms"
	ServerBucket     = "server_bucket_share"
	SlowTraced       = "slow_traced_share"
	PersonalData     = "personal_data_bytes"
	SecretsStored    = "secrets_stored_share"
	DecoysChanged    = "decoys_changed_share"
	SpansShare       = "spans_share"
	MeasuredShare    = "measured_share"
	BatchShare       = "batch_processor_share"
	RedisShare       = "redis_tracing_share"
	SentP50          = "uncorrected_p50_ms"
	SentP95          = "uncorrected_p95_ms"
	SentP99          = "uncorrected_p99_ms"
	SuccessShare     = "success_share"
	CPUProxy         = "cpu_proxy_us"
	CoresProxy       = "cores_proxy"
	MemProxy         = "mem_proxy_mib"
	NetAllRate       = "net_all_kbps"
	DNSQueries       = "dns_queries_per_s"
)

// Metrics in the order in which a report shows them.
var Metrics = []Metric{
	{Throughput, "throughput", "requests/s", "requests answered well within the window, by its length", -1, false},
	{Offered, "offered load", "requests/s", "requests that were due within the window (open loop), or begun (closed loop)", 0, false},
	{ErrorShare, "errors", "share", "requests that failed or were not answered with 2xx, of all", +1, true},
	{SuccessShare, "requests that succeed", "share", "requests answered with 2xx, of all", -1, false},
	{P50, "latency p50", "ms", "from the intended send time to the last byte", +1, false},
	{P95, "latency p95", "ms", "from the intended send time to the last byte", +1, false},
	{P99, "latency p99", "ms", "from the intended send time to the last byte", +1, false},
	{Max, "latency maximum", "ms", "from the intended send time to the last byte", +1, false},
	{SentP50, "latency p50, uncorrected", "ms", "from when the request was really sent to the last byte, as wrk2's --u_latency: time that it waited for the service to answer others is left out; only in an open loop, where it can differ", +1, false},
	{SentP95, "latency p95, uncorrected", "ms", "as p50, uncorrected", +1, false},
	{SentP99, "latency p99, uncorrected", "ms", "as p50, uncorrected", +1, false},
	{ServerThroughput, "throughput by the service", "requests/s", "requests that the service itself counted, whatever their status, between two readings of its metrics around the window, by the time between them", -1, false},
	{ServerP50, "latency p50 by the service", "ms", "from the histogram of the service's own metrics, between two readings around the window, interpolated within the bucket; without the connection and whatever waited before the service began", +1, false},
	{ServerP95, "latency p95 by the service", "ms", "as p50 by the service", +1, false},
	{ServerP99, "latency p99 by the service", "ms", "as p50 by the service", +1, false},
	{ServerBucket, "width of the service's buckets", "share", "how far off a latency by the service may be: width of the bucket that it lies in, of its value; the greatest of p50, p95 and p99", 0, true},
	{CPUService, "CPU of the service", "µs/request", "CPU clocks of the service's processes, over requests answered", +1, false},
	{CPUEntry, "CPU of the entry", "µs/request", "CPU clocks of the one service that clients ask, over requests answered; only where there are several services", +1, false},
	{CPUMean, "CPU of a service, mean", "µs/request", "CPU clocks of the service's processes, by the number of services, replicas being one, over requests answered; only where there are several services", +1, false},
	{CPUTracer, "CPU of the tracer", "µs/request", "CPU clocks of the tracer's own processes, over requests answered", +1, true},
	{CPUProxy, "CPU of the proxies", "µs/request", "CPU clocks of the proxies' processes, which are none of the service, over requests answered; only where there are proxies", +1, false},
	{CPUMachine, "CPU of the machine", "µs/request", "busy time of all CPUs, load generator and sink included, over requests answered", +1, false},
	{CPUTraced, "CPU of service and tracer", "µs/request", "CPU clocks of the service's processes, its proxies among them, and of the tracer's own, over requests answered: without load generator, sink and meter", +1, false},
	{CPUTracerSpan, "CPU of the tracer per span", "µs/span", "CPU clocks of the tracer's own processes, over the spans of the requests answered, by the sampling rate; from 1% on", +1, true},
	{CPULab, "CPU of the laboratory", "µs/request", "CPU clock of the process with load generator, sink and meter, over requests answered", +1, false},
	{CPUGenerator, "CPU of the load generator", "µs/request", "CPU clocks of its own threads, a part of the laboratory's, over requests answered; not where another program sends the load", 0, false},
	{CPUSink, "CPU of the sink", "µs/request", "CPU of the laboratory without the threads of load generator and meter, over requests answered: the receiver of spans, and what Go's runtime does for all three", +1, true},
	{CPUAgent, "CPU of the agent", "µs/request", "CPU clock of the agent's process alone, a part of the tracer's, over requests answered; not the time in kernel programs, which is the services'", +1, true},
	{CPUCollector, "CPU of the collector", "µs/request", "CPU clock of the collector that spans come to, over requests answered: behind a tracer a part of the tracer's, under test the service's", +1, true},
	{CoresService, "cores of the service", "cores", "CPU clocks of the service's processes, by the window's length", +1, false},
	{CoresProxy, "cores of the proxies", "cores", "CPU clocks of the proxies' processes, by the window's length", +1, false},
	{CoresTracer, "cores of the tracer", "cores", "CPU clocks of the tracer's own processes, by the window's length", +1, true},
	{CoresCollector, "cores of the collector", "cores", "CPU clock of the collector that spans come to, by the window's length", +1, true},
	{CoresMachine, "cores of the machine", "cores", "busy time of all CPUs, by the window's length", +1, false},
	{CoresMeter, "cores of the meter", "cores", "CPU clock of the meter's own thread, by the window's length", 0, true},
	{Stolen, "stolen by the hypervisor", "cores", "time in which a CPU was wanted and the hypervisor gave it to others, by the window's length", 0, true},
	{MemService, "memory of the service", "MiB", "resident set of the service's processes, median of the samples within the window", +1, false},
	{MemServicePeak, "peak memory of the service", "MiB", "sum of the processes' greatest resident sets since they began", +1, false},
	{MemProxy, "memory of the proxies", "MiB", "resident set of the proxies' processes, median of the samples within the window", +1, false},
	{MemTracer, "memory of the tracer", "MiB", "resident set of the tracer's own processes, median of the samples", +1, true},
	{MemTracerPeak, "peak memory of the tracer", "MiB", "sum of the processes' greatest resident sets since they began", +1, true},
	{MemCollector, "memory of the collector", "MiB", "resident set of the collector that spans come to, median of the samples", +1, true},
	{DiskCollector, "disk writes of the collector", "bytes/request", "bytes that the collector had written to the disk, or that wait in the page cache for it (write_bytes in /proc/PID/io), over requests answered; 0 where its directory is in memory", +1, true},
	{StoreRate, "stored in an hour", "MB/h", "bytes that the store of the collector takes on the disk after the run and a restart, by the time under load", +1, true},
	{CollectorQueue, "queue of the collector", "spans", "spans that wait for the collector's exporters, mean of two readings around the window", +1, true},
	{CollectorPending, "spans pending in the collector", "spans", "spans that wait in the collector for the rest of their trace, mean of two readings around the window", 0, true},
	{NetOut, "network out", "bytes/request", "bytes that left the service's network namespace, by the veth's counter, over requests answered", +1, false},
	{NetOutRate, "network out", "MB/s", "bytes that left the service's network namespace, by the veth's counter, by the window's length", +1, false},
	{NetAllRate, "network of the services", "kB/s", "bytes that left the service's network namespace, by the veth's counter, and that passed its loopback, by that one's, by the window's length", +1, false},
	{NetWithin, "network between services", "bytes/request", "bytes that passed the loopback of the service's network namespace, IP and TCP headers included, by its counter, over requests answered", +1, false},
	{NetExport, "export", "bytes/request", "bodies of OTLP requests that the sink received within the window, over requests answered", +1, true},
	{NetReported, "reports of the agent", "bytes/request", "bodies of OTLP requests that the receiver took from the agent, before compression, by the agent's counter tare_export_bytes_total between two readings around the window, by the time between them and the throughput", +1, true},
	{SpansReceived, "spans received", "1/s", "spans that the sink received within the run, by the time under load", 0, true},
	{SpansPerRequest, "spans per request", "1", "spans that the sink received in the whole run, over requests answered in the whole run", 0, true},
	{SpansShare, "spans of sampled traces", "share", "spans that arrived in the whole run, of each trace as many as it must have at most, over those that the sampled traces must have: root decisions to sample, or traces whose root arrived where nobody counts decisions, times the spans of the workload's complete trace", -1, false},
	{MeasuredShare, "requests in the tracer's metrics", "share", "requests of the service that clients ask which the agent's metrics count (its own --metrics requests), over requests answered or failed, in the whole run", -1, false},
	{BatchShare, "CPU below the batch span processor", "share", "of the service's CPU profile, samples with a function of NewBatchSpanProcessor of the OpenTelemetry SDK on their stack", +1, true},
	{RedisShare, "CPU of redis instrumentation", "share", "of the service's CPU profile, samples in the category redis instrumentation: redisotel and the API below it, without the client itself", +1, true},
	{SpansDropped, "spans dropped", "1", "spans that the tracer says it lost in the whole run", +1, true},
	{SampledShare, "sampled, observed", "share", "traces of which a root span arrived, over requests answered, in the whole run", 0, true},
	{SampledAsked, "sampled, configured", "share", "the rate that the running tracer says it has", 0, true},
	{SampledDecided, "sampled, decided", "share", "root decisions to sample that the running sampler counts, over requests, in the whole run", 0, true},
	{RateMean, "mean rate of the sampler", "share", "mean of the rates that the running sampler said it had, asked again and again within the window", 0, true},
	{RatePeak, "highest rate of the sampler", "share", "greatest of the same rates", 0, true},
	{FailedTraced, "failed requests with a trace", "share", "traces whose root is a server's span with the status error, over requests that failed, in the whole run; only where requests fail", -1, false},
	{SlowTraced, "slow requests with a trace", "share", "traces whose root is a server's span that took longer than the workload's limit, over requests that took longer, as the service counted them, in the whole run; only where requests are slow", -1, false},
	{PersonalData, "personal data stored", "bytes/request", "bytes of planted secrets that the sink received in one piece, each as often as it came, over requests answered in the whole run; only where secrets are planted", +1, false},
	{SecretsStored, "planted secrets stored", "share", "planted secrets that the sink received in one piece at least once, of those in requests that have a trace, in the whole run", +1, false},
	{DecoysChanged, "decoys changed", "share", "false alarms: what looks like a secret, is none, and was not received as it is, of that in requests that have a trace; only of tracing within the service, which records all of it", +1, false},
	{Complete, "complete traces", "share", "of the sampled traces, those with every span that the workload must produce", -1, false},
	{Wrong, "wrong traces", "1", "traces that hold spans of two requests", +1, true},
	{Covered, "services with spans", "share", "of the services that a request may reach, stores included, those of which at least one span arrived", -1, false},
	{LinkedShare, "calls linked", "share", "of the calls that services made for requests of which there is a span, those below their own request", -1, false},
	{UnlinkedShare, "calls not linked", "share", "of the same calls, those below no request", +1, true},
	{WrongCalls, "calls linked wrongly", "1", "of the same calls, those below another request", +1, true},
	{CausePrecision, "causes named rightly", "share", "of the services that `tare diagnose` names as causes, those that were late (precision); only where it names any", -1, false},
	{CauseRecall, "causes found", "share", "of the services that were late, those that `tare diagnose` names as causes (recall)", -1, false},
	{CauseFirst, "late service named first", "share", "1 if the first service that `tare diagnose` names, for the operation with most traces for which it names any, was late, else 0", -1, false},
	{DNSQueries, "DNS queries", "1/s", "questions that services and tracer asked the laboratory's server of names, each type and each domain of the search list for itself, by the time between two readings around the window", +1, true},
	{KernelPrograms, "kernel programs", "µs/request", "run time of the tracer's kernel programs, over requests answered; only where it was switched on", +1, true},
	{GeneratorLagP99, "lag of the load generator", "ms", "p99 of what the generator itself was late with a free connection", 0, true},
}

// WithUnit is the name with the unit, which tells metrics of one name apart.
func (m Metric) WithUnit() string {
	if m.Unit == "1" {
		return m.Name
	}
	return m.Name + " (" + m.Unit + ")"
}

// MetricOf finds a metric by its key.
func MetricOf(key string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Key == key {
			return m, true
		}
	}
	return Metric{}, false
}
