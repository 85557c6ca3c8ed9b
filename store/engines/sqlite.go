package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/mattn/go-sqlite3" // SQLite in C
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	_ "modernc.org/sqlite" // SQLite translated to Go
)

// sqlite keeps a row for each span: services, operations, resources and scopes by
// number, the span itself as a blob. One index finds traces, the other one holds
// all that a search by service and the quantiles look at, so that neither reads
// rows. A batch is a transaction in the write-ahead log, which is on the disk
// when it commits.
type sqlite struct {
	db         *sql.DB
	one, many  *sql.Stmt
	services   map[string]int64
	operations map[string]int64
	origins    map[origin]int64
	rows       []row
	values     []any
}

const (
	sqliteColumns = 10
	// sqliteRows go in by one statement: ten traces. The time of a statement is
	// more than that of a row.
	sqliteRows = 90
)

// The cache is as large as that of Tare's store. The log may become as long as
// Pebble's before it is worked off.
const sqliteSchema = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -32768;
PRAGMA wal_autocheckpoint = 8192;
CREATE TABLE IF NOT EXISTS service (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS operation (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS origin (id INTEGER PRIMARY KEY, resource BLOB NOT NULL, scope BLOB NOT NULL, UNIQUE (resource, scope));
CREATE TABLE IF NOT EXISTS span (
	trace BLOB NOT NULL, service INTEGER NOT NULL, operation INTEGER NOT NULL, start INTEGER NOT NULL, duration INTEGER NOT NULL,
	root INTEGER NOT NULL, entry INTEGER NOT NULL, failed INTEGER NOT NULL, origin INTEGER NOT NULL, span BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS span_trace ON span (trace);
CREATE INDEX IF NOT EXISTS span_service ON span (service, start, operation, entry, failed, duration, trace);
`

func openSQLite(driver, dir string) (engine, error) {
	db, err := sql.Open(driver, filepath.Join(dir, "spans.db"))
	if err != nil {
		return nil, err
	}
	// The settings are those of a connection.
	db.SetMaxOpenConns(1)
	s := &sqlite{db: db, services: map[string]int64{}, operations: map[string]int64{}, origins: map[origin]int64{}}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *sqlite) prepare() error {
	if _, err := s.db.Exec(sqliteSchema); err != nil {
		return err
	}
	values := "(?" + strings.Repeat(",?", sqliteColumns-1) + ")"
	var err error
	if s.one, err = s.db.Prepare("INSERT INTO span VALUES " + values); err != nil {
		return err
	}
	if s.many, err = s.db.Prepare("INSERT INTO span VALUES " + values + strings.Repeat(","+values, sqliteRows-1)); err != nil {
		return err
	}
	if err := numbers(s.db, "service", s.services); err != nil {
		return err
	}
	if err := numbers(s.db, "operation", s.operations); err != nil {
		return err
	}
	rows, err := s.db.Query("SELECT id, resource, scope FROM origin")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err tells
	for rows.Next() {
		var id int64
		var resource, scope []byte
		if err := rows.Scan(&id, &resource, &scope); err != nil {
			return err
		}
		s.origins[origin{string(resource), string(scope)}] = id
	}
	return rows.Err()
}

func numbers(db *sql.DB, table string, into map[string]int64) error {
	rows, err := db.Query("SELECT id, name FROM " + table)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err tells
	for rows.Next() {
		var id int64
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return err
		}
		into[name] = id
	}
	return rows.Err()
}

// number of a value, given to it now if it has none. A failed write may leave
// numbers that are not on the disk, after which nothing is measured.
func number[K comparable](tx *sql.Tx, known map[K]int64, key K, insert string, args ...any) (int64, error) {
	if id, ok := known[key]; ok {
		return id, nil
	}
	id := int64(len(known) + 1)
	if _, err := tx.Exec(insert, append([]any{id}, args...)...); err != nil {
		return 0, err
	}
	known[key] = id
	return id, nil
}

func (s *sqlite) write(ctx context.Context, td ptrace.Traces) (err error) {
	if s.rows, err = rowsOf(td, s.rows[:0]); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := s.insert(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (s *sqlite) insert(ctx context.Context, tx *sql.Tx) error {
	many, one := tx.StmtContext(ctx, s.many), tx.StmtContext(ctx, s.one)
	for chunk := range slices.Chunk(s.rows, sqliteRows) {
		s.values = s.values[:0]
		for i := range chunk {
			r := &chunk[i]
			service, err := number(tx, s.services, r.service, "INSERT INTO service VALUES (?, ?)", r.service)
			if err != nil {
				return err
			}
			operation, err := number(tx, s.operations, r.name, "INSERT INTO operation VALUES (?, ?)", r.name)
			if err != nil {
				return err
			}
			from, err := number(tx, s.origins, r.origin, "INSERT INTO origin VALUES (?, ?, ?)", []byte(r.origin.resource), []byte(r.origin.scope))
			if err != nil {
				return err
			}
			s.values = append(s.values, r.trace[:], service, operation, int64(r.start), int64(r.duration), r.root, r.entry, r.failed, from, r.span)
		}
		if len(chunk) == sqliteRows {
			if _, err := many.ExecContext(ctx, s.values...); err != nil {
				return err
			}
			continue
		}
		for v := range slices.Chunk(s.values, sqliteColumns) {
			if _, err := one.ExecContext(ctx, v...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sqlite) trace(ctx context.Context, id pcommon.TraceID) (ptrace.Traces, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT origin, span FROM span WHERE trace = ?", id[:])
	return traceOfRows(rows, err, s.origins)
}

func (s *sqlite) search(ctx context.Context, q query) ([]summary, error) {
	ids, err := s.newest(ctx, q)
	if err != nil {
		return nil, err
	}
	found := make([]summary, len(ids))
	for i, id := range ids {
		r := summary{trace: id}
		err := s.db.QueryRowContext(ctx, `
			SELECT max(CASE WHEN s.root THEN o.name END), max(CASE WHEN s.root THEN v.name END),
				min(s.start), max(s.start + s.duration) - min(s.start), count(*), sum(s.failed)
			FROM span s JOIN operation o ON o.id = s.operation JOIN service v ON v.id = s.service WHERE s.trace = ?`, id[:]).
			Scan(&r.name, &r.service, &r.start, (*int64)(&r.duration), &r.spans, &r.errors)
		if err != nil {
			return nil, err
		}
		found[i] = r
	}
	return found, nil
}

// newest reads the index backwards until it has the traces.
func (s *sqlite) newest(ctx context.Context, q query) ([]pcommon.TraceID, error) {
	where := "service = (SELECT id FROM service WHERE name = ?) AND duration >= ?"
	if q.failed {
		where += " AND failed"
	}
	rows, err := s.db.QueryContext(ctx, "SELECT trace FROM span INDEXED BY span_service WHERE "+where+" ORDER BY start DESC", q.service, int64(q.min))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	var ids []pcommon.TraceID
	for len(ids) < q.limit && rows.Next() {
		var raw sql.RawBytes
		if err := rows.Scan(&raw); err != nil {
			return nil, err
		}
		if len(raw) != 16 {
			return nil, fmt.Errorf("a trace id of %d bytes", len(raw))
		}
		if id := pcommon.TraceID(raw); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

// latencies reads the index: SQLite has no quantiles of its own, and its windows
// would sort all spans.
func (s *sqlite) latencies(ctx context.Context) ([]latency, error) {
	names := map[int64]string{}
	for name, id := range s.services {
		names[id] = name
	}
	rows, err := s.db.QueryContext(ctx, "SELECT service, duration, failed FROM span INDEXED BY span_service WHERE entry")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	type counts struct {
		h      *hdrhistogram.Histogram
		errors uint64
	}
	of := map[int64]*counts{}
	for rows.Next() {
		var service, duration int64
		var failed bool
		if err := rows.Scan(&service, &duration, &failed); err != nil {
			return nil, err
		}
		c := of[service]
		if c == nil {
			c = &counts{h: hdrhistogram.New(1, int64(time.Hour), 2)}
			of[service] = c
		}
		if err := c.h.RecordValue(duration); err != nil {
			return nil, err
		}
		if failed {
			c.errors++
		}
	}
	var found []latency
	for id, c := range of {
		at := func(q float64) time.Duration { return time.Duration(c.h.ValueAtQuantile(q)) }
		found = append(found, latency{names[id], uint64(c.h.TotalCount()), c.errors, at(50), at(95), at(99)})
	}
	return found, rows.Err()
}

func (s *sqlite) close() error { return errors.Join(s.one.Close(), s.many.Close(), s.db.Close()) }
