package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// duckDB keeps a row for each span, like sqlite; names stay text, since columns
// of text have dictionaries of their own. Rows go in by the Appender, a batch to a
// transaction. Only the trace id has an index: a search reads columns, with the
// bounds that DuckDB keeps of each group of rows.
type duckDB struct {
	db      *sql.DB
	conn    *sql.Conn
	origins map[origin]int64
	rows    []row
}

// One thread, and memory for the cache of Tare's store and for what a query needs.
const duckDBSchema = `
SET threads = 1;
SET memory_limit = '512MB';
CREATE TABLE IF NOT EXISTS origin (id INTEGER, resource BLOB, scope BLOB);
CREATE TABLE IF NOT EXISTS span (
	trace UUID, service VARCHAR, operation VARCHAR, start UBIGINT, duration UBIGINT,
	root BOOLEAN, entry BOOLEAN, failed BOOLEAN, origin INTEGER, span BLOB);
CREATE INDEX IF NOT EXISTS span_trace ON span (trace);
`

func openDuckDB(dir string) (engine, error) {
	connector, err := duckdb.NewConnector(filepath.Join(dir, "spans.duckdb"), nil)
	if err != nil {
		return nil, err
	}
	d := &duckDB{db: sql.OpenDB(connector), origins: map[origin]int64{}} // which closes the connector
	if d.conn, err = d.db.Conn(context.Background()); err != nil {
		return nil, errors.Join(err, d.db.Close())
	}
	if err := d.prepare(context.Background()); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *duckDB) prepare(ctx context.Context) error {
	if _, err := d.conn.ExecContext(ctx, duckDBSchema); err != nil {
		return err
	}
	rows, err := d.conn.QueryContext(ctx, "SELECT id, resource, scope FROM origin")
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
		d.origins[origin{string(resource), string(scope)}] = id
	}
	return rows.Err()
}

func (d *duckDB) write(ctx context.Context, td ptrace.Traces) (err error) {
	if d.rows, err = rowsOf(td, d.rows[:0]); err != nil {
		return err
	}
	if _, err := d.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := d.insert(ctx); err != nil {
		_, rollback := d.conn.ExecContext(ctx, "ROLLBACK")
		return errors.Join(err, rollback)
	}
	_, err = d.conn.ExecContext(ctx, "COMMIT")
	return err
}

func (d *duckDB) insert(ctx context.Context) error {
	for i := range d.rows {
		from := d.rows[i].origin
		if _, ok := d.origins[from]; ok {
			continue
		}
		id := int64(len(d.origins) + 1)
		if _, err := d.conn.ExecContext(ctx, "INSERT INTO origin VALUES (?, ?, ?)", id, []byte(from.resource), []byte(from.scope)); err != nil {
			return err
		}
		d.origins[from] = id
	}
	return d.conn.Raw(func(c any) error {
		conn, ok := c.(driver.Conn)
		if !ok {
			return fmt.Errorf("a connection of type %T", c)
		}
		a, err := duckdb.NewAppenderFromConn(conn, "", "span")
		if err != nil {
			return err
		}
		for i := range d.rows {
			r := &d.rows[i]
			if err := a.AppendRow(duckdb.UUID(r.trace), r.service, r.name, r.start, r.duration, r.root, r.entry, r.failed, int32(d.origins[r.origin]), r.span); err != nil {
				return errors.Join(err, a.Close())
			}
		}
		return a.Close()
	})
}

func (d *duckDB) trace(ctx context.Context, id pcommon.TraceID) (ptrace.Traces, error) {
	u := duckdb.UUID(id)
	// No join: with one, DuckDB 1.4 scans the table instead of using the index.
	rows, err := d.conn.QueryContext(ctx, "SELECT origin, span FROM span WHERE trace = ?::UUID", &u)
	return traceOfRows(rows, err, d.origins)
}

func (d *duckDB) search(ctx context.Context, q query) ([]summary, error) {
	where := "service = ? AND duration >= ?"
	if q.failed {
		where += " AND failed"
	}
	rows, err := d.conn.QueryContext(ctx, "SELECT trace FROM span WHERE "+where+" GROUP BY trace ORDER BY max(start) DESC LIMIT ?", q.service, uint64(q.min), q.limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	var found []summary
	for rows.Next() {
		var id duckdb.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		found = append(found, summary{trace: pcommon.TraceID(id)})
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for i := range found {
		r, id := &found[i], duckdb.UUID(found[i].trace)
		err := d.conn.QueryRowContext(ctx, `
			SELECT max(operation) FILTER (root), max(service) FILTER (root),
				min(start), (max(start + duration) - min(start))::BIGINT, count(*), count(*) FILTER (failed)
			FROM span WHERE trace = ?::UUID`, &id).
			Scan(&r.name, &r.service, &r.start, (*int64)(&r.duration), &r.spans, &r.errors)
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (d *duckDB) latencies(ctx context.Context) ([]latency, error) {
	rows, err := d.conn.QueryContext(ctx, `
		SELECT service, count(*), count(*) FILTER (failed), quantile_disc(duration, 0.5), quantile_disc(duration, 0.95), quantile_disc(duration, 0.99)
		FROM span WHERE entry GROUP BY service`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	var found []latency
	for rows.Next() {
		var l latency
		var p50, p95, p99 uint64
		if err := rows.Scan(&l.service, &l.spans, &l.errors, &p50, &p95, &p99); err != nil {
			return nil, err
		}
		l.p50, l.p95, l.p99 = time.Duration(p50), time.Duration(p95), time.Duration(p99)
		found = append(found, l)
	}
	return found, rows.Err()
}

func (d *duckDB) close() error { return errors.Join(d.conn.Close(), d.db.Close()) }
