package main

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// engine keeps spans in a directory.
type engine interface {
	// write returns when td survives a power cut. td is changed afterwards.
	write(ctx context.Context, td ptrace.Traces) error
	// trace returns all spans of a trace, whole; errNotFound.
	trace(ctx context.Context, id pcommon.TraceID) (ptrace.Traces, error)
	// search returns the newest traces with such a span, as a list shows them.
	search(ctx context.Context, q query) ([]summary, error)
	// latencies returns the quantiles of every service's server spans and roots.
	latencies(ctx context.Context) ([]latency, error)
	close() error
}

var errNotFound = errors.New("no such trace")

type query struct {
	service string
	min     time.Duration
	failed  bool
	limit   int
}

// summary is a trace in a list.
type summary struct {
	trace         pcommon.TraceID
	name, service string // of its root
	start         uint64 // Unix ns
	duration      time.Duration
	spans, errors int
}

type latency struct {
	service       string
	spans, errors uint64
	p50, p95, p99 time.Duration
}

// candidate is an engine that is compared.
type candidate struct {
	name   string
	module string // whose version is told
	size   string // the program in size/ that links it and nothing else
	open   func(dir string) (engine, error)
}

var candidates = []candidate{
	{"Pebble, Tare's store", "github.com/cockroachdb/pebble/v2", "tare", openTare},
	{"SQLite in Go", "modernc.org/sqlite", "modernc", func(dir string) (engine, error) { return openSQLite("sqlite", dir) }},
	{"SQLite in C", "github.com/mattn/go-sqlite3", "mattn", func(dir string) (engine, error) { return openSQLite("sqlite3", dir) }},
	{"DuckDB", "github.com/duckdb/duckdb-go/v2", "duckdb", openDuckDB},
}

// version of the engine's module, as it is linked.
func (c *candidate) version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == c.module {
			return m.Path + " " + m.Version
		}
	}
	return c.module
}
