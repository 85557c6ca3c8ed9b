package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"

	"github.com/tare-trace/tare/otel/lean/leanredis"
	"github.com/tare-trace/tare/workloads/internal/hotel"
	"github.com/tare-trace/tare/workloads/internal/service"
)

// Connections that are opened before the first request: what is said when one is
// opened belongs to no request. To memcached nothing is said then.
const (
	postgresConnections = 4
	redisConnections    = 32
)

// patience is how long a store may take to answer, with thousands waiting.
const patience = 20 * time.Second

// cache is a memcached. No OpenTelemetry instrumentation of its client is kept up:
// traces from within the services do not show it.
type cache struct{ client *memcache.Client }

func (n *node) openCache() (cache, error) {
	addr, err := n.address("MEMCACHED")
	if err != nil {
		return cache{}, err
	}
	c := memcache.New(addr)
	c.Timeout, c.MaxIdleConns = patience, 512
	return cache{c}, nil
}

// get asks for what is there for this request alone, nil if nothing.
func (c cache) get(ctx context.Context, key string) ([]byte, error) {
	item, err := c.client.Get(withText(ctx, key))
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("memcached: %w", err)
	}
	return item.Value, nil
}

func (n *node) openRedis(ctx context.Context) (*redis.Client, error) {
	addr, err := n.address("REDIS")
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: redisConnections, MinIdleConns: redisConnections, ConnMaxIdleTime: -1,
		PoolTimeout: patience, ReadTimeout: patience,
	})
	held := make([]*redis.Conn, redisConnections)
	for i := range held { // each takes one that is not yet taken
		held[i] = rdb.Conn()
		if err := held[i].Ping(ctx).Err(); err != nil {
			return nil, fmt.Errorf("REDIS: %w", err)
		}
	}
	for _, c := range held {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		return nil, err
	}
	// After the connections, so that opening them leaves no traces.
	switch n.tracing.Pipeline() {
	case service.Official:
		err = redisotel.InstrumentTracing(rdb, redisotel.WithDialFilter(true))
	case service.Lean:
		err = leanredis.Instrument(rdb, leanredis.WithDialFilter(true))
	}
	return rdb, err
}

// database is PostgreSQL. A statement is one message to it and one back: it is not
// prepared, since its text ends with the number of the request.
type database struct{ pool *pgxpool.Pool }

func (n *node) openDatabase(ctx context.Context) (database, error) {
	addr, err := n.address("POSTGRES")
	if err != nil {
		return database{}, err
	}
	c, err := pgxpool.ParseConfig("postgres://tare@" + addr + "/postgres?sslmode=disable")
	if err != nil {
		return database{}, err
	}
	c.MaxConns = postgresConnections
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if n.tracing.Pipeline() != "" { // the one that there is; on lean, too
		c.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithDisableAcquireTracer())
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return database{}, err
	}
	held := make([]*pgxpool.Conn, postgresConnections)
	for i := range held {
		held[i], err = pool.Acquire(ctx)
		for starting(err) && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			held[i], err = pool.Acquire(ctx)
		}
		if err != nil {
			return database{}, fmt.Errorf("POSTGRES: %w", err)
		}
	}
	for _, c := range held {
		c.Release()
	}
	return database{pool}, nil
}

// starting tells the refusal of a server that listens and is not ready yet.
func starting(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Code == "57P03" // cannot_connect_now
}

// rows are those of a city.
func rows[T any](ctx context.Context, db database, text, city string) ([]*T, error) {
	r, err := db.pool.Query(ctx, withText(ctx, text), city)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(r, pgx.RowToAddrOfStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return all, nil
}

// table has the rows of the cities that are kept in memory, read once, and gets
// those of the others as they are asked for.
type table[T any] struct {
	db   database
	text string
	kept map[string][]*T
}

func newTable[T any](ctx context.Context, db database, text string) (table[T], error) {
	t := table[T]{db: db, text: text, kept: map[string][]*T{}}
	for _, city := range hotel.Cities {
		if !hotel.InMemory(city) {
			continue
		}
		var err error
		if t.kept[city], err = rows[T](ctx, db, text, city); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t table[T]) of(ctx context.Context, city string) ([]*T, error) {
	if kept, ok := t.kept[city]; ok {
		return kept, nil
	}
	return rows[T](ctx, t.db, t.text, city)
}
