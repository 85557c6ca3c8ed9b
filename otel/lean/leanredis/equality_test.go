package leanredis_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
	"github.com/tare-trace/tare/otel/lean/leanredis"
)

// options are those that both instrumentations have.
type options struct {
	system                        string
	attributes                    []attribute.KeyValue
	noStatement, noCaller, noDial bool
	command                       func(redis.Cmder) bool
	commands                      func([]redis.Cmder) bool
}

type instrument func(redis.UniversalClient, trace.TracerProvider, options) error

func official(rdb redis.UniversalClient, tp trace.TracerProvider, o options) error {
	opts := []redisotel.TracingOption{
		redisotel.WithTracerProvider(tp), redisotel.WithAttributes(o.attributes...), redisotel.WithDBStatement(!o.noStatement),
		redisotel.WithCallerEnabled(!o.noCaller), redisotel.WithDialFilter(o.noDial),
	}
	if o.system != "" {
		opts = append(opts, redisotel.WithDBSystem(o.system))
	}
	if o.command != nil {
		opts = append(opts, redisotel.WithCommandFilter(o.command))
	}
	if o.commands != nil {
		opts = append(opts, redisotel.WithCommandsFilter(o.commands))
	}
	return redisotel.InstrumentTracing(rdb, opts...)
}

func ours(rdb redis.UniversalClient, tp trace.TracerProvider, o options) error {
	opts := []leanredis.Option{
		leanredis.WithTracerProvider(tp), leanredis.WithAttributes(o.attributes...), leanredis.WithDBStatement(!o.noStatement),
		leanredis.WithCallerEnabled(!o.noCaller), leanredis.WithDialFilter(o.noDial),
	}
	if o.system != "" {
		opts = append(opts, leanredis.WithDBSystem(o.system))
	}
	if o.command != nil {
		opts = append(opts, leanredis.WithCommandFilter(o.command))
	}
	if o.commands != nil {
		opts = append(opts, leanredis.WithCommandsFilter(o.commands))
	}
	return leanredis.Instrument(rdb, opts...)
}

// world is what a case has.
type world struct {
	*testing.T
	env  *equality.Env
	with instrument
	opts options
	addr string // of a redis-server
}

// client returns an instrumented client, made as change says.
func (w *world) client(change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: w.addr, MaxRetries: -1, PoolSize: 1}
	for _, c := range change {
		c(o)
	}
	rdb := redis.NewClient(o)
	w.instrument(rdb)
	return rdb
}

func (w *world) instrument(rdb redis.UniversalClient) {
	w.Helper()
	if err := w.with(rdb, w.env.TracerProvider, w.opts); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = rdb.Close() })
}

func (w *world) note(err error) {
	w.env.Note("error %v", err != nil)
}

// equal runs a case with redisotel on the SDK, with leanredis on lean, and
// with leanredis on the SDK.
func equal(t *testing.T, r *equality.Receiver, addr, name string, o func(*equality.Env) equality.Options, opts options, run func(context.Context, *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		one := func(with instrument, pipe equality.Pipeline) equality.Result {
			var result equality.Result
			// A test of its own, so that its clients are closed before the next.
			t.Run("run", func(t *testing.T) {
				p := equality.Program{Name: name, Options: o, Concurrent: true, Run: func(ctx context.Context, e *equality.Env) {
					run(ctx, &world{T: t, env: e, with: with, opts: opts, addr: addr})
				}}
				res, err := equality.Run(p, pipe, r, false)
				require.NoError(t, err)
				for _, s := range res.Spans {
					s.Status.Message = ports.ReplaceAllString(s.GetStatus().GetMessage(), "$1:PORT")
					for _, e := range s.GetEvents() {
						mask(e.GetAttributes())
					}
					mask(s.GetAttributes())
					result.Spans = append(result.Spans, &equality.Span{Span: s.Span}) // scopes differ on purpose
				}
				result.Pipeline, result.Notes, result.From, result.To = res.Pipeline, res.Notes, res.From, res.To
			})
			return result
		}
		want := one(official, equality.Official)
		for _, got := range []struct {
			what   string
			result equality.Result
		}{{"leanredis on lean", one(ours, equality.Lean)}, {"leanredis on the SDK", one(ours, equality.Official)}} {
			assert.NoError(t, equality.Compare(want, got.result, false, false), "%s", got.what)
		}
		if testing.Verbose() {
			for _, s := range want.Spans {
				t.Logf("%v", s.Span)
			}
		}
	})
}

// ports are those on this side of a connection; they differ between runs.
var ports = regexp.MustCompile(`(127\.0\.0\.1):\d+`)

// hook is the function of either instrumentation. Where a walk up the stack
// ends there, because sixteen frames are all that it looks at, it is not about
// the caller.
var hook = regexp.MustCompile(`^(v9\.\(\*tracingHook\)|leanredis\.\(\*hook\))\.`)

func mask(kvs []*commonpb.KeyValue) {
	inHook := false
	for _, kv := range kvs {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			v.StringValue = ports.ReplaceAllString(v.StringValue, "$1:PORT")
			if kv.GetKey() == "code.function" && hook.MatchString(v.StringValue) {
				v.StringValue, inHook = "the hook", true
			}
			if kv.GetKey() == "code.filepath" && inHook {
				v.StringValue = "the hook"
			}
		case *commonpb.AnyValue_IntValue:
			if kv.GetKey() == "code.lineno" && inHook {
				v.IntValue = -1
			}
		}
	}
}

func commands(ctx context.Context, w *world) {
	rdb := w.client()
	w.note(rdb.FlushAll(ctx).Err())
	w.note(rdb.Set(ctx, "key", "value", time.Minute).Err())
	w.note(rdb.Get(ctx, "key").Err())
	w.note(rdb.Get(ctx, "nothing").Err()) // redis.Nil
	w.note(rdb.Incr(ctx, "key").Err())    // no integer
	w.note(rdb.LPush(ctx, "key", 1).Err())
	w.note(rdb.Do(ctx, "NOSUCH", "x").Err())
	w.note(rdb.Do(ctx, "SET", "k", []byte{0, 1, 0xff}, "px", 1000).Err())
	w.note(rdb.Do(ctx, "cluster", "info").Err())
	w.note(rdb.Do(ctx, "command", "count").Err())
	w.note(rdb.ConfigSet(ctx, "requirepass", "").Err()) // a credential
	w.note(rdb.Do(ctx, "auth", "secret").Err())         // filtered
	w.note(rdb.Do(ctx, "HELLO", 3, "AUTH", "a", "b").Err())
	w.note(rdb.Do(ctx, "hello", 3).Err())
	w.note(rdb.MSet(ctx, "a", 1, "b", 2.5, "c", true, "d", "ü").Err())
	w.note(rdb.Set(ctx, "long", strings.Repeat("x", 2000), 0).Err())
	w.note(rdb.Eval(ctx, "return redis.error_reply('My error')", nil).Err())
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	w.note(rdb.Get(cancelled, "key").Err())
}

func pipelines(ctx context.Context, w *world) {
	rdb := w.client()
	cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "p", 1, 0)
		p.Get(ctx, "p")
		p.Get(ctx, "p")
		p.Incr(ctx, "p")
		return nil
	})
	w.note(err)
	w.env.Note("%d commands", len(cmds))
	_, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "p")
		p.Expire(ctx, "p", time.Hour)
		return nil
	})
	w.note(err)
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "nothing")
		p.LPush(ctx, "p", 1)
		return nil
	})
	w.note(err)
	_, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LPush(ctx, "p", 1)
		p.Get(ctx, "nothing")
		return nil
	})
	w.note(err)
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // filtered
		p.Get(ctx, "p")
		p.Do(ctx, "auth", "secret")
		return nil
	})
	w.note(err)
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // more than ten names
		for _, name := range []string{"get", "set", "incr", "decr", "append", "strlen", "getset", "ttl", "pttl", "type", "exists", "del"} {
			p.Do(ctx, name, "p", "1")
			p.Do(ctx, name, "p", "1")
		}
		return nil
	})
	w.note(err)
	w.note(rdb.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "p"); return nil })
		return err
	}, "p"))
}

func TestEqual(t *testing.T) {
	addr := redisServer(t)
	r := equality.NewReceiver()
	defer r.Close()
	both := func(ctx context.Context, w *world) { commands(ctx, w); pipelines(ctx, w) }
	for name, o := range map[string]options{
		"default":      {},
		"system":       {system: "valkey"},
		"attributes":   {attributes: []attribute.KeyValue{attribute.String("own", "x"), attribute.String("server.address", "mine"), attribute.Int("db.redis.num_cmd", -1)}},
		"no statement": {noStatement: true},
		"no caller":    {noCaller: true},
		"no dial":      {noDial: true},
		"filters": {
			command:  func(c redis.Cmder) bool { return c.Name() == "get" },
			commands: func(c []redis.Cmder) bool { return len(c) == 2 },
		},
	} {
		equal(t, r, addr, name, nil, o, both)
	}
	for name, s := range map[string]sdktrace.Sampler{
		"never":            sdktrace.NeverSample(),
		"parent based":     sdktrace.ParentBased(sdktrace.NeverSample()),
		"commands only":    byName{},
		"reads attributes": byAttribute{},
	} {
		equal(t, r, addr, "sampler "+name, func(*equality.Env) equality.Options { return equality.Options{Sampler: s} }, options{}, both)
	}
	parent := func(flags trace.TraceFlags) func(context.Context, *world) {
		sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true})
		return func(ctx context.Context, w *world) { both(trace.ContextWithSpanContext(ctx, sc), w) }
	}
	equal(t, r, addr, "sampled parent", nil, options{}, parent(1))
	equal(t, r, addr, "unsampled parent", nil, options{}, parent(0))
	equal(t, r, addr, "unsampled parent, sampled nevertheless", func(*equality.Env) equality.Options { return equality.Options{Sampler: sdktrace.AlwaysSample()} }, options{}, parent(0))
	equal(t, r, addr, "local parent", nil, options{}, func(ctx context.Context, w *world) {
		ctx, span := w.env.Tracer("local").Start(ctx, "local")
		defer span.End()
		both(ctx, w)
	})
	equal(t, r, addr, "dialing", nil, options{}, func(ctx context.Context, w *world) {
		// A pool of one would go on dialing in the background after one failure.
		failing := func(o *redis.Options) { o.DialerRetries, o.PoolSize = 1, 10 }
		w.note(w.client(failing, func(o *redis.Options) { o.Addr = "127.0.0.1:1" }).Ping(ctx).Err())
		w.note(w.client(failing, func(o *redis.Options) {
			o.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no dialing today") }
		}).Ping(ctx).Err())
		w.note(w.client(failing, func(o *redis.Options) { o.Addr = "no-port" }).Ping(ctx).Err())
		w.note(w.client(failing, func(o *redis.Options) { o.Network = "unix"; o.Addr = "/nonexistent.sock" }).Ping(ctx).Err())
		w.note(w.client(failing, func(o *redis.Options) { o.Username = "u"; o.Password = "p" }).Ping(ctx).Err())
	})
	equal(t, r, addr, "ring", nil, options{}, func(ctx context.Context, w *world) {
		rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}, HeartbeatFrequency: time.Hour, PoolSize: 1})
		w.instrument(rdb)
		w.note(rdb.Set(ctx, "k", "v", 0).Err())
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "k"); return nil })
		w.note(err)
	})
	equal(t, r, addr, "other hooks", nil, options{}, func(ctx context.Context, w *world) {
		rdb := w.client()
		rdb.AddHook(noting{w})
		both2 := func(ctx context.Context) { w.note(rdb.Get(ctx, "p").Err()) }
		both2(ctx)
		ctx, span := w.env.Tracer("local").Start(ctx, "local")
		both2(ctx)
		span.End()
	})
}

// noting notes what a hook that comes later finds.
type noting struct{ *world }

func (n noting) DialHook(next redis.DialHook) redis.DialHook { return next }
func (n noting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		sc := trace.SpanContextFromContext(ctx)
		n.env.Note("%s: sampled %v, recording %v", cmd.Name(), sc.IsSampled(), trace.SpanFromContext(ctx).IsRecording())
		return next(ctx, cmd)
	}
}
func (n noting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// byName samples no dialing, and no spans below one that is not sampled.
type byName struct{}

func (byName) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Name == "redis.dial" || strings.Contains(p.Name, "incr") {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
}

func (byName) Description() string { return "byName" }

// byAttribute samples by the statement, and adds what it saw.
type byAttribute struct{}

func (byAttribute) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	d := sdktrace.Drop
	for _, kv := range p.Attributes {
		if kv.Key == "db.statement" && strings.Contains(kv.Value.AsString(), "p") {
			d = sdktrace.RecordAndSample
		}
	}
	return sdktrace.SamplingResult{Decision: d, Attributes: []attribute.KeyValue{attribute.Int("sampler.saw.n", len(p.Attributes))}}
}

func (byAttribute) Description() string { return "byAttribute" }

func TestInstrumentRefuses(t *testing.T) {
	err := leanredis.Instrument(struct{ redis.UniversalClient }{})
	assert.ErrorContains(t, err, "give it a *redis.Client")
}
