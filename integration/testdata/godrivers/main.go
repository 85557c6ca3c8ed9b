// Command godrivers is a service that asks by libraries that no other program of the tests
// has: godrivers LISTEN NEXT. /mysql/5 and /pq/5 are a query to MariaDB or PostgreSQL that
// is 5 bytes longer than the shortest, as are /mysql-worker/5 and /pq-worker/5, by goroutines
// that the handler hands its context; /connect/5 and /grpc/5 call the procedure Get of
// another one, at NEXT, by Connect's protocol or by that of gRPC, and that asks
// PostgreSQL. The databases' ports are in MARIADB and POSTGRES.
package main

import (
	"context"
	"database/sql"
	"log"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/lib/pq"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// pooled is how many connections there are to each database before the first request: what
// is said when one is opened belongs to no request.
const pooled = 16

const procedure = "/test.Length/Get"

func main() {
	listen, next := os.Args[1], os.Args[2]
	mysql := open("mysql", "root@tcp(127.0.0.1:"+os.Getenv("MARIADB")+")/")
	pq := open("postgres", "postgres://postgres@127.0.0.1:"+os.Getenv("POSTGRES")+"/postgres?sslmode=disable")

	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	url := "http://" + next + procedure
	asks := map[string]func(context.Context, int) error{
		"n":       func(context.Context, int) error { return nil },
		"mysql":   func(ctx context.Context, n int) error { return query(ctx, mysql, n) },
		"pq":      func(ctx context.Context, n int) error { return query(ctx, pq, n) },
		"connect": caller(connect.NewClient[wrapperspb.Int64Value, wrapperspb.Int64Value](client, url)),
		"grpc":    caller(connect.NewClient[wrapperspb.Int64Value, wrapperspb.Int64Value](client, url, connect.WithGRPC())),
	}

	jobs := make(chan func())
	for range pooled {
		go func() {
			for job := range jobs {
				job()
			}
		}()
	}
	for _, name := range []string{"mysql", "pq"} {
		asks[name+"-worker"] = handed(jobs, asks[name])
	}

	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, r *connect.Request[wrapperspb.Int64Value]) (*connect.Response[wrapperspb.Int64Value], error) {
		if err := query(ctx, pq, int(r.Msg.GetValue())); err != nil {
			return nil, err
		}
		return connect.NewResponse(r.Msg), nil
	}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(path.Base(r.URL.Path))
		ask := asks[strings.Trim(path.Dir(r.URL.Path), "/")]
		if err != nil || ask == nil {
			http.NotFound(w, r)
			return
		}
		if err := ask(r.Context(), n); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	protocols = new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{Addr: listen, Handler: mux, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	log.Fatal(srv.ListenAndServe())
}

func caller(c *connect.Client[wrapperspb.Int64Value, wrapperspb.Int64Value]) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		_, err := c.CallUnary(ctx, connect.NewRequest(wrapperspb.Int64(int64(n))))
		return err
	}
}

// handed leaves the work to a goroutine that was there before.
func handed(jobs chan<- func(), ask func(context.Context, int) error) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		done := make(chan error)
		jobs <- func() { done <- ask(ctx, n) }
		return <-done
	}
}

func query(ctx context.Context, db *sql.DB, n int) error {
	var text string
	return db.QueryRowContext(ctx, "SELECT '"+strings.Repeat("x", n)+"'").Scan(&text)
}

// open waits for the database, and opens all connections.
func open(driver, source string) *sql.DB {
	db, err := sql.Open(driver, source)
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(pooled)
	db.SetMaxIdleConns(pooled)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range pooled {
		c, err := db.Conn(ctx)
		for ; err != nil && ctx.Err() == nil; c, err = db.Conn(ctx) {
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	return db
}
