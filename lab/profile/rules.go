package profile

// owner is a package, with those below it, that has a category.
type owner struct{ path, category string }

// neutral packages take the category of their caller.
const neutral = ""

// owners, the more special one first. The standard library is neutral without
// being listed; a package that has a domain in its path and is not listed is Other.
var owners = []owner{
	{"github.com/tare-trace/tare/otel/lean/leanhttp", LeanInstrumentation},
	{"github.com/tare-trace/tare/otel/lean/leanredis", LeanInstrumentation},
	{"github.com/tare-trace/tare/otel/lean/w3c", LeanInstrumentation},
	{"github.com/tare-trace/tare/otel/lean", LeanPipeline},
	{"github.com/tare-trace/tare/otel", Decisions},
	{"github.com/tare-trace/tare/workloads", Application},
	{"main", Application},
	{"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", HTTPInstrumentation},
	{"go.opentelemetry.io/otel/sdk", SpanPipeline},
	{"go.opentelemetry.io/otel/exporters", SpanPipeline},
	{"go.opentelemetry.io/proto/otlp", SpanPipeline},
	{"go.opentelemetry.io/contrib/exporters", SpanPipeline},
	{"github.com/redis/go-redis/extra", RedisInstrumentation}, // redisotel, rediscmd
	{"github.com/redis/go-redis", RedisClient},
	{"runtime/pprof", Other}, // the profiler
	{"net/http/pprof", Other},
	// Libraries that the ones above use.
	{"github.com/cenkalti/backoff", neutral},
	{"github.com/cespare/xxhash", neutral},
	{"github.com/dgryski/go-rendezvous", neutral},
	{"github.com/felixge/httpsnoop", neutral},
	{"github.com/go-logr", neutral},
	{"github.com/golang/protobuf", neutral},
	{"github.com/google/uuid", neutral},
	{"github.com/grpc-ecosystem/grpc-gateway", neutral},
	{"github.com/klauspost/compress", neutral},
	{"go.uber.org/atomic", neutral},
	{"golang.org/x", neutral},
	{"google.golang.org/genproto", neutral},
	{"google.golang.org/grpc", neutral},
	{"google.golang.org/protobuf", neutral},
}

// The API of OpenTelemetry is neutral, but if its caller is no part of tracing,
// calling it was: it is then HTTPInstrumentation.
var apis = []string{"go.opentelemetry.io/otel", "go.opentelemetry.io/contrib/propagators", "go.opentelemetry.io/auto/sdk"}

// server is what of net/http only a server runs. The rest of it is neutral: a
// client has it on its stack as well, and so have those who only set a header.
var server = []string{
	"(*Server).", "(*conn).", "(*connReader).", "(*response).", "(*chunkWriter).", "(*ServeMux).", "serverHandler.",
	"checkConnErrorWriter.", "(*checkConnErrorWriter).", "(*expectContinueReader).", "(*timeoutHandler).",
	"(*timeoutWriter).", "(*http2serverConn).", "(*http2responseWriter).", "initALPNRequest.", "(*onceCloseListener).",
	"bufioWriterPool", "newBufioWriterSize", "putBufioWriter",
}

// wrapped methods of net/http are what an instrumented client or handler would
// have run without it, too: an instrumentation that calls one directly passes it
// on to its own caller.
var wrapped = []string{
	"(*Transport).RoundTrip", "(*Transport).roundTrip", "(*body).Read", "(*body).Close", "(*bodyEOFSignal).", "HandlerFunc.ServeHTTP",
	"(*http2Transport).RoundTrip",
}

// transports are the goroutines of clients that have no caller: functions by
// package.
var transports = map[string][]string{
	"net/http": {
		"(*persistConn).", "(*Transport).dialConn", "(*Transport).startDialConnFor", "(*Transport).dial",
		"(*http2ClientConn).", "(*http2clientConnReadLoop).", "(*http2clientStream).", "(*http2Transport).",
	},
	"golang.org/x/net/http2": {"(*ClientConn).", "(*clientConnReadLoop).", "(*clientStream).", "(*Transport)."},
	"google.golang.org/grpc/internal/transport": {
		"(*http2Client).", "NewHTTP2Client.", "(*loopyWriter).", "newHTTP2Client.",
	},
	"google.golang.org/grpc":                       {"(*addrConn).", "(*ClientConn).", "(*ccBalancerWrapper).", "(*acBalancerWrapper)."},
	"google.golang.org/grpc/internal/grpcsync":     {"(*CallbackSerializer)."},
	"google.golang.org/grpc/internal/resolver/dns": {"(*dnsResolver)."},
	"google.golang.org/grpc/internal/idle":         {"(*Manager)."},
}

// collector is what of the runtime the garbage collector runs, by the beginning of
// the name without the package; Go 1.24 to 1.26.
var collector = []string{
	// Marking: background workers, assists of those who allocate, the phases.
	"gcBgMarkWorker", "gcBgMarkStartWorkers", "gcAssistAlloc", "gcParkAssist", "gcWakeAllAssists", "gcFlushBgCredit",
	"gcDrain", "gcStart", "gcMark", "gcmarknewobject", "gcResetMarkState", "gcPrepareMarkRoots",
	"(*gcWork).", "(*workType).", "markroot", "scanobject", "scanblock", "scanstack", "scanframeworker",
	"scanConservative", "scanSpan", "scanObject", "greyobject", "shade", "tryDeferToSpanScan", "(*spanQueue).",
	"(*spanSPMC).", "(*spanInlineMarkBits).", "forcegchelper", "clearpools",
	// Sweeping and giving back memory, in the background or by those who allocate.
	"gcSweep", "bgsweep", "sweepone", "(*sweepLocked).", "(*sweepLocker).", "(*activeSweep).", "finishsweep_m",
	"deductSweepCredit", "(*mheap).reclaim", "(*mspan).sweep", "(*mspan).ensureSwept", "bgscavenge",
	"(*scavengerState).", "(*pageAlloc).scavenge", "(*mheap).scavengeAll",
	// Write barriers: their fast path costs nothing while nothing is marked.
	"gcWriteBarrier", "wbMove", "wbZero", "wbBufFlush", "(*wbBuf).", "bulkBarrierPreWrite", "typeBitsBulkBarrier",
}
