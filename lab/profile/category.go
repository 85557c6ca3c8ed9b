package profile

// The categories. A sample is in the first of these that holds:
//
//  1. GarbageCollection, if a function of the collector is anywhere on its stack:
//     mark workers, assists, sweeping, the scavenger, write barriers. Allocation
//     itself is not: it belongs to whoever allocates.
//  2. The category of the first frame, from the leaf, whose package has one. The
//     standard library, the Go runtime and a list of small libraries have none:
//     what they do belongs to their caller. So a growing stack (newstack) or a
//     system call belongs to the function that needed it.
//  3. SpanPipeline, if its goroutine is one of an HTTP or gRPC client's own, on
//     whose stack no caller can be seen: the exporter's is the only client of most
//     services under test. A service that calls others by HTTP is charged with
//     those calls there, too.
//  4. Scheduler, if the stack begins in the runtime: schedule, findRunnable and
//     epoll, sysmon, timers.
//  5. Other.
const (
	// SpanPipeline: the OpenTelemetry SDK, its batch processor and its OTLP
	// exporters, with encoding, compression and HTTP or gRPC client under them.
	SpanPipeline = "span pipeline"
	// HTTPInstrumentation: otelhttp, with propagation, semantic conventions,
	// attributes and metrics under it; and calls of the OpenTelemetry API that
	// no instrumentation library made.
	HTTPInstrumentation = "HTTP instrumentation"
	// RedisInstrumentation: redisotel, and the API under it.
	RedisInstrumentation = "redis instrumentation"
	// LeanPipeline: Tare's lean span pipeline and its exporters, with what they call,
	// but for the goroutines of the HTTP or gRPC client: see rule 3.
	LeanPipeline = "lean span pipeline"
	// LeanInstrumentation: leanhttp, leanredis and propagation, with what they call.
	LeanInstrumentation = "lean instrumentation"
	// Decisions: Tare's samplers, keep and redaction, in whichever pipeline.
	Decisions = "sampling, keep, redaction"
	// GarbageCollection: see above.
	GarbageCollection = "garbage collection"
	// RedisClient: go-redis.
	RedisClient = "redis client"
	// HTTPServer: the server side of net/http.
	HTTPServer = "net/http server"
	// Scheduler: the runtime when no function of the program called it.
	Scheduler = "scheduler and runtime"
	// Application: package main and the workloads.
	Application = "application"
	// Other: no rule knows it, and the profiler itself.
	Other = "other"
)

// Categories in the order in which Shares returns them.
var Categories = []string{
	SpanPipeline, HTTPInstrumentation, RedisInstrumentation, LeanPipeline, LeanInstrumentation, Decisions, GarbageCollection,
	RedisClient, HTTPServer, Scheduler, Application, Other,
}
