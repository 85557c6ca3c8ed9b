// Package leanredis traces go-redis clients. Its spans are those of
// redisotel.InstrumentTracing v9.23 — names, kind, attributes, exception
// events, status — at a fraction of its cost.
//
//	rdb := redis.NewClient(&redis.Options{Addr: addr})
//	err := leanredis.Instrument(rdb, leanredis.WithTracerProvider(tp))
//
// It works with any trace.TracerProvider, and is fast with lean's: a command
// whose caller is not sampled costs no allocation, one that is sampled costs
// one if its statement is not long; a pipeline costs one more, for its name.
// Statement and caller are determined for recorded spans only, unless the
// sampler wants to see attributes.
//
// By default a span names the function, file and line that called go-redis, as
// redisotel's do. That takes a walk up the stack for each command, close to half
// of what a sampled command costs; [WithCallerEnabled] switches it off. See
// BenchmarkCommand.
//
// What it refuses: clients other than *redis.Client, *redis.ClusterClient and
// *redis.Ring; and metrics, for which redisotel.InstrumentMetrics can be used
// beside it.
//
// One difference in what others see: hooks that come after this one, and the
// dialing of a connection, find in their context the caller's span context,
// not one of the command's own, when both are not sampled.
package leanredis
