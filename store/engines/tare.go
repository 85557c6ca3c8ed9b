package main

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
)

// tare is Tare's store, as the collector uses it but without retention.
type tare struct{ s *store.Store }

func openTare(dir string) (engine, error) {
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	return tare{s}, nil
}

func (t tare) write(ctx context.Context, td ptrace.Traces) error { return t.s.Write(ctx, td) }

func (t tare) trace(ctx context.Context, id pcommon.TraceID) (ptrace.Traces, error) {
	td, err := t.s.Trace(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		err = errNotFound
	}
	return td, err
}

func (t tare) search(ctx context.Context, q query) ([]summary, error) {
	sq := store.Query{Service: q.service, MinDuration: q.min, Limit: q.limit}
	if q.failed {
		sq.Status = store.Failed
	}
	r, err := t.s.Search(ctx, sq)
	if err != nil {
		return nil, err
	}
	if r.Truncated {
		return nil, errors.New("the search ran out of time")
	}
	found := make([]summary, len(r.Traces))
	for i, s := range r.Traces {
		found[i] = summary{s.TraceID, s.Root, s.Service, uint64(s.Start.UnixNano()), s.Duration, s.Spans, s.Errors}
	}
	return found, nil
}

func (t tare) latencies(ctx context.Context) ([]latency, error) {
	all, err := t.s.Latencies(ctx, time.Time{}, time.Time{}, "", false)
	if err != nil {
		return nil, err
	}
	found := make([]latency, len(all))
	for i, l := range all {
		found[i] = latency{l.Service, l.Count, uint64(l.Errors), l.P50, l.P95, l.P99}
	}
	return found, nil
}

func (t tare) close() error { return t.s.Close() }
