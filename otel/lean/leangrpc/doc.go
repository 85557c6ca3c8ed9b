// Package leangrpc traces grpc-go servers and clients, unary and streaming, as a
// stats.Handler. Its spans are those of otelgrpc 0.71 in its default mode: names,
// kinds, attributes, status.
//
//	p := leangrpc.WithPropagators(w3c.Propagator{})
//	server := grpc.NewServer(grpc.StatsHandler(leangrpc.NewServerHandler(leangrpc.WithTracerProvider(tp), p)))
//	conn, err := grpc.NewClient(addr, grpc.WithStatsHandler(leangrpc.NewClientHandler(leangrpc.WithTracerProvider(tp), p)))
//
// It works with any trace.TracerProvider, and is fast with lean's: for a call that
// is not sampled no attribute is built.
//
// It refuses to do what otelgrpc does besides: metrics, filters, message events,
// public endpoints, and attributes of OpenTelemetry's older conventions. The scope
// of the spans is [ScopeName].
package leangrpc
