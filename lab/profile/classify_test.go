package profile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const (
	otelhttp  = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdk       = "go.opentelemetry.io/otel/sdk/trace"
	exporter  = "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	redisotel = "github.com/redis/go-redis/extra/redisotel/v9"
	goredis   = "github.com/redis/go-redis/v9"
	serving   = "net/http.HandlerFunc.ServeHTTP < net/http.serverHandler.ServeHTTP < net/http.(*conn).serve < runtime.goexit"
)

// of classifies a stack that is written as in a profile: callee < caller.
func of(stack string) string { return categoryOf(strings.Split(stack, " < ")) }

func TestRules(t *testing.T) {
	for _, c := range []struct{ stack, want string }{
		// The garbage collector, wherever it is.
		{"runtime.scanObject < runtime.gcDrain < runtime.gcBgMarkWorker.func2 < runtime.systemstack < runtime.gcBgMarkWorker < runtime.goexit", GarbageCollection},
		{"runtime.markroot < runtime.gcDrainN < runtime.gcAssistAlloc1 < runtime.gcAssistAlloc < runtime.mallocgc < main.handle < " + serving, GarbageCollection},
		{"runtime.(*sweepLocked).sweep < runtime.(*mcentral).cacheSpan < runtime.mallocgc < " + sdk + ".(*tracer).Start < main.handle", GarbageCollection},
		{"runtime.lock2 < runtime.bgsweep < runtime.goexit", GarbageCollection},
		{"runtime.futex < runtime.startm < runtime.gcStart.func2 < runtime.mallocgc < main.handle", GarbageCollection},
		{"gcWriteBarrier < main.handle < " + serving, GarbageCollection},
		{"runtime.wbBufFlush1 < runtime.wbBufFlush.func1 < runtime.systemstack < gcWriteBarrier < " + goredis + ".(*Client).Process < main.handle", GarbageCollection},
		{"runtime.madvise < runtime.(*pageAlloc).scavengeOne < runtime.bgscavenge < runtime.goexit", GarbageCollection},
		// Allocation is no collection.
		{"runtime.nextFreeFast < runtime.mallocgc < runtime.newobject < main.handle < " + serving, Application},
		{"runtime.(*mheap).allocSpan < runtime.(*mcentral).grow < runtime.mallocgc < " + sdk + ".(*recordingSpan).End < main.handle", SpanPipeline},
		// Names that only look like the collector's.
		{"main.gcDrain < main.main < runtime.main", Application},
		{"runtime.gcd < main.handle", Application},

		// The span pipeline, with everything under it.
		{sdk + ".(*tracer).Start < " + otelhttp + ".(*middleware).serveHTTP < " + serving, SpanPipeline},
		{"google.golang.org/protobuf/internal/impl.(*MessageInfo).marshal < google.golang.org/protobuf/proto.Marshal < " + exporter + ".(*client).UploadTraces < " + sdk + ".(*batchSpanProcessor).exportSpans", SpanPipeline},
		{"internal/runtime/syscall/linux.Syscall6 < syscall.write < net.(*conn).Write < net/http.(*persistConn).roundTrip < net/http.(*Transport).RoundTrip < net/http.(*Client).Do < " + exporter + ".(*client).UploadTraces", SpanPipeline},
		{"compress/flate.(*compressor).deflate < compress/gzip.(*Writer).Write < " + exporter + ".(*client).newRequest", SpanPipeline},
		{"go.opentelemetry.io/proto/otlp/trace/v1.(*Span).ProtoReflect < google.golang.org/protobuf/proto.Size < runtime.goexit", SpanPipeline},
		{"runtime.selectgo < " + sdk + ".(*batchSpanProcessor).processQueue < " + sdk + ".NewBatchSpanProcessor.func1 < runtime.goexit", SpanPipeline},
		{"go.opentelemetry.io/otel/attribute.NewSet < " + sdk + ".(*tracer).newSpan < main.handle", SpanPipeline},
		// Goroutines of its HTTP or gRPC client, which have no caller.
		{"internal/runtime/syscall/linux.Syscall6 < net/http.persistConnWriter.Write < bufio.(*Writer).Flush < net/http.(*persistConn).writeLoop < runtime.goexit", SpanPipeline},
		{"net/textproto.(*Reader).ReadMIMEHeader < net/http.ReadResponse < net/http.(*persistConn).readLoop < runtime.goexit", SpanPipeline},
		{"net.(*netFD).connect < net/http.(*Transport).dialConn < net/http.(*Transport).dialConnFor < runtime.goexit", SpanPipeline},
		{"golang.org/x/net/http2.(*Framer).WriteData < google.golang.org/grpc/internal/transport.(*loopyWriter).run < google.golang.org/grpc/internal/transport.newHTTP2Client.func6 < runtime.goexit", SpanPipeline},
		{"google.golang.org/grpc/internal/transport.(*http2Client).reader < runtime.goexit", SpanPipeline},
		// … but the application's client on the application's own stack is its own.
		{"net/http.(*persistConn).roundTrip < net/http.(*Transport).RoundTrip < net/http.(*Client).Do < main.call < " + serving, Application},

		// Instrumentation.
		{"go.opentelemetry.io/otel/propagation.TraceContext.Extract < " + otelhttp + ".(*middleware).serveHTTP < " + serving, HTTPInstrumentation},
		{"go.opentelemetry.io/otel/semconv/v1%2e43%2e0.HTTPRoute < " + otelhttp + "/internal/semconv.HTTPServer.MetricAttributes < " + serving, HTTPInstrumentation},
		{"go.opentelemetry.io/otel/metric/noop.Int64Counter.Add < " + otelhttp + "/internal/semconv.HTTPServer.RecordMetrics < " + serving, HTTPInstrumentation},
		{"runtime.efaceeq < type:.eq.go.opentelemetry.io/otel/attribute.Value < " + otelhttp + ".(*middleware).serveHTTP < " + serving, HTTPInstrumentation},
		{"github.com/felixge/httpsnoop.Wrap < " + otelhttp + ".(*middleware).serveHTTP < " + serving, HTTPInstrumentation},
		{"net/textproto.MIMEHeader.Get < net/http.Header.Get < " + otelhttp + ".(*middleware).serveHTTP < " + serving, HTTPInstrumentation},
		{"runtime.mallocgc < strings.Contains < " + redisotel + ".funcFileLine < " + redisotel + ".(*tracingHook).ProcessHook.func1 < " + goredis + ".(*Client).Process < main.handle", RedisInstrumentation},
		{"go.opentelemetry.io/otel/attribute.String < " + redisotel + ".(*tracingHook).ProcessHook.func1 < " + goredis + ".(*Client).Process", RedisInstrumentation},
		{"strconv.AppendInt < github.com/redis/go-redis/extra/rediscmd/v9.CmdString < " + redisotel + ".(*tracingHook).ProcessHook.func1", RedisInstrumentation},
		{"runtime.memmove < github.com/tare-trace/tare/otel/lean.(*Span).End < main.handle < " + serving, LeanPipeline},
		{"go.opentelemetry.io/otel/trace.ContextWithSpan < github.com/tare-trace/tare/otel/lean.Start < main.handle", LeanPipeline},
		{"github.com/tare-trace/tare/otel/adaptive.(*Sampler).ShouldSample < github.com/tare-trace/tare/otel/lean.(*Tracer).Decide < github.com/tare-trace/tare/otel/lean/leanhttp.(*handler).ServeHTTP < " + serving, Decisions},
		{"github.com/tare-trace/tare/otel/lean/w3c.FromHeader < github.com/tare-trace/tare/otel/lean/leanhttp.(*handler).ServeHTTP < " + serving, LeanInstrumentation},
		{"runtime.memmove < main.handle < github.com/tare-trace/tare/otel/lean/leanhttp.(*handler).ServeHTTP < " + serving, Application},
		// The API, called by whoever is no part of tracing.
		{"go.opentelemetry.io/otel/attribute.String < main.handle < " + serving, HTTPInstrumentation},
		{"go.opentelemetry.io/otel/internal/global.(*tracer).Start < main.handle < " + serving, HTTPInstrumentation},
		// What an instrumentation wraps is not its cost.
		{"net.(*conn).Read < net/http.(*Transport).RoundTrip < " + otelhttp + ".(*Transport).RoundTrip < net/http.send < net/http.(*Client).Do < main.call < " + serving, Application},
		{"io.(*LimitedReader).Read < net/http.(*body).Read < " + otelhttp + "/internal/request.(*BodyWrapper).Read < io.ReadAll < main.handle < " + serving, Application},
		{"time.Now < " + otelhttp + ".(*Transport).RoundTrip < net/http.send < main.call", HTTPInstrumentation},
		{"syscall.write < net.(*conn).Write < net/http.(*response).Write < " + otelhttp + ".(*respWriterWrapper).Write < main.handle < " + serving, HTTPServer},

		// Libraries, the application, and whom they call.
		{"internal/poll.(*FD).Read < net.(*conn).Read < bufio.(*Reader).Peek < " + goredis + "/internal/proto.(*Reader).ReadReply < " + goredis + ".(*Client).Process < " + redisotel + ".(*tracingHook).ProcessHook.func1 < main.handle", RedisClient},
		{"github.com/cespare/xxhash/v2.Sum64String < " + goredis + ".(*Ring).pick < main.handle", RedisClient},
		{"syscall.write < net.(*conn).Write < net/http.checkConnErrorWriter.Write < bufio.(*Writer).Flush < net/http.(*response).finishRequest < net/http.(*conn).serve < runtime.goexit", HTTPServer},
		{"net/textproto.(*Reader).ReadMIMEHeader < net/http.readRequest < net/http.(*conn).readRequest < net/http.(*conn).serve < runtime.goexit", HTTPServer},
		{"net/http.(*connReader).backgroundRead < runtime.goexit", HTTPServer},
		{"net.(*TCPListener).Accept < net/http.(*Server).Serve < main.main < runtime.main", HTTPServer},
		{"fmt.(*pp).doPrintf < fmt.Fprintf < main.handle < " + serving, Application},
		{"net/http.Header.Set < main.handle < " + serving, Application},
		{"sort.Slice < github.com/tare-trace/tare/workloads/counter/serve.Handle < " + serving, Application},
		{"slices.Grow[go.shape.[]go.opentelemetry.io/otel/attribute.KeyValue] < main.handle < " + serving, Application},
		{"sync/atomic.(*Pointer[go.shape.struct { net/http.x }]).Load < main.(*cache[go.shape.int]).get < " + serving, Application},
		// A growing stack belongs to whom it grows for.
		{"runtime.copystack < runtime.newstack < runtime.morestack < " + goredis + ".(*Client).Process < main.handle", RedisClient},

		// Nobody's.
		{"internal/runtime/syscall/linux.EpollWait < runtime.netpoll < runtime.findRunnable < runtime.schedule < runtime.park_m < runtime.mcall", Scheduler},
		{"runtime.usleep < runtime.sysmon < runtime.mstart1 < runtime.mstart0", Scheduler},
		{"time.sendTime < time.goFunc < runtime.(*timers).run < runtime.findRunnable < runtime.schedule < runtime.mcall", Scheduler},
		{"runtime.morestack", Scheduler},
		{"runtime.goexit", Scheduler},
		{"memeqbody", Scheduler},
		{"os/signal.loop < os/signal.watchSignalLoop.gowrap1 < runtime.goexit", Other},
		{"github.com/some/library.Work < " + serving, Other},
		{"compress/flate.(*compressor).deflate < runtime/pprof.(*profileBuilder).build < runtime/pprof.profileWriter < runtime.goexit", Other},
		{"runtime/pprof.StartCPUProfile < net/http/pprof.Profile < " + serving, Other},
		{"mainframe.Work < runtime.goexit", Other}, // not below main, of no domain: as if of the standard library
	} {
		assert.Equal(t, c.want, of(c.stack), c.stack)
	}
	assert.Equal(t, Other, categoryOf(nil), "no stack")
}

func TestSplit(t *testing.T) {
	for symbol, want := range map[string][2]string{
		"main.main":                          {"main", "main"},
		"net/http.(*conn).serve":             {"net/http", "(*conn).serve"},
		"gopkg.in/yaml%2ev3.(*Node).Decode":  {"gopkg.in/yaml.v3", "(*Node).Decode"},
		"a.b/c.(*T[d.e/f.G]).M":              {"a.b/c", "(*T[d.e/f.G]).M"},
		"a.b/c.F[go.shape.struct { x/y.z }]": {"a.b/c", "F[go.shape.struct { x/y.z }]"},
		"type:.eq.a.b/c.T":                   {"", "type:.eq.a.b/c.T"},
		"memeqbody":                          {"", "memeqbody"},
		"":                                   {"", ""},
		".":                                  {"", ""},
	} {
		if pkg, name := split(symbol); pkg != want[0] || name != want[1] {
			t.Errorf("%q: %q, %q", symbol, pkg, name)
		}
	}
}

// Every category that a rule can give is one of Categories, and each is given by
// one of the stacks above.
func TestCategoriesAreComplete(t *testing.T) {
	known := map[string]bool{}
	for _, c := range Categories {
		if known[c] {
			t.Errorf("%q twice", c)
		}
		known[c] = true
	}
	for _, o := range owners {
		if o.category != neutral && !known[o.category] {
			t.Errorf("%s has the unknown category %q", o.path, o.category)
		}
	}
}
