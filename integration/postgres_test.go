package integration

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
)

var recordTo = flag.String("record-postgres", "", "file that gets the messages of TestPostgresSpans, as agent/spans/testdata/postgres.txt")

// Spans of PostgreSQL say what its clients sent, however they send it, and nothing
// of values and passwords.
func TestPostgresSpans(t *testing.T) {
	t.Parallel()
	need(t, "postgres", "psql", "pgbench")
	c, s := newServers(t, "postgres"), newSink(t)
	port := strings.TrimPrefix(c.env[len(c.env)-1], "POSTGRES=")
	sql := func(conn *pgx.Conn, text string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	var setup *pgx.Conn
	testkit.Until(t, time.Minute, "PostgreSQL answers", func() bool {
		var err error
		setup, err = connectPostgres(t, port, "postgres", "", pgx.QueryExecModeSimpleProtocol)
		return err == nil
	})
	sql(setup, `CREATE TABLE items (id int PRIMARY KEY, name text);
		CREATE ROLE anna LOGIN PASSWORD 'hunter2'; GRANT ALL ON items TO anna;
		CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT 2 * n'`)
	hba := filepath.Join(c.g.Dir, "postgres", "data", "pg_hba.conf")
	if err := os.WriteFile(hba, []byte("host all anna all scram-sha-256\nhost all all all trust\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sql(setup, "SELECT pg_reload_conf()")
	if err := setup.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, time.Minute, "PostgreSQL wants passwords", func() bool {
		conn, err := connectPostgres(t, port, "anna", "wrong", pgx.QueryExecModeSimpleProtocol)
		if err == nil {
			_ = conn.Close(t.Context()) // another is tried
		}
		return err != nil
	})
	a := trace(t, s, nil, c.ports...)

	program := func(name string, args ...string) func(*testing.T, string) {
		return func(t *testing.T, port string) {
			cmd := exec.CommandContext(t.Context(), program(name), append([]string{"-h", "127.0.0.1", "-p", port, "-U", "anna"}, args...)...)
			cmd.Env = []string{"PGPASSWORD=hunter2", "PGSSLMODE=disable", "PGGSSENCMODE=disable", "PGOPTIONS=-c statement_timeout=60s"}
			cmd.Stdin = strings.NewReader("17\tseventeen\n")
			out, err := cmd.CombinedOutput()
			t.Logf("%v %s", err, out)
		}
	}
	script := c.file("items.sql", "SELECT name FROM items WHERE id = 17 AND name <> 'seventeen';\nSELECT name FROM items WHERE id = 17 AND name <> 'seventeen';\n")
	withPgx := func(mode pgx.QueryExecMode) func(*testing.T, string) {
		return func(t *testing.T, port string) { usePgx(t, port, mode) }
	}
	var lines []string
	for _, client := range []struct {
		name string
		run  func(t *testing.T, port string)
		want []string
	}{
		{"psql", program("psql", "-d", "postgres", "-c", "INSERT INTO items VALUES (1, 'it''s one')", "-c", "SELECT * FROM item WHERE name = E'it\\'s'", "-c", `\copy items FROM STDIN`), []string{
			`StartupMessage`,
			`Authentication`,
			`Authentication`,
			`INSERT items | INSERT INTO items VALUES (?, ?)`,
			`SELECT item | SELECT * FROM item WHERE name = ? | 42P01`,
			`COPY items | COPY items FROM STDIN`,
			`COPY`,
		}},
		{"pgbench simple", program("pgbench", "-n", "-t", "1", "-M", "simple", "-f", script, "postgres"), []string{
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
		}},
		{"pgbench extended", program("pgbench", "-n", "-t", "1", "-M", "extended", "-f", script, "postgres"), []string{
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
		}},
		{"pgbench prepared", program("pgbench", "-n", "-t", "2", "-M", "prepared", "-f", script, "postgres"), []string{
			`PREPARE SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
			`PREPARE SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
			`SELECT items | SELECT name FROM items WHERE id = ? AND name <> ?;`,
		}},
		{"pgx simple", withPgx(pgx.QueryExecModeSimpleProtocol), []string{
			`SELECT items | SELECT count(*) FROM items WHERE id = ? AND name <> ?`,
			`SELECT items | SELECT count(*) FROM items WHERE id = ? AND name <> ?`,
			`UPDATE items | UPDATE items SET name = ? WHERE id = ? AND name <> ?`,
			`INSERT items | INSERT INTO items VALUES ( ? , ? | 23505`,
			`postgresql |  | 42601`,
			`SELECT DELETE items | SELECT twice( ? );DELETE FROM items WHERE id = ?`,
			`PREPARE SELECT items | select "id", "name" from "items"`,
			`COPY items | copy "items" ( "id", "name" ) from stdin binary;`,
		}},
		{"pgx exec", withPgx(pgx.QueryExecModeExec), []string{
			`SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`UPDATE items | UPDATE items SET name = $1 WHERE id = $2 AND name <> ?`,
			`INSERT items | INSERT INTO items VALUES ($1, $2) | 23505`,
			`postgresql |  | 42601`,
			`SELECT DELETE items | SELECT twice($1); DELETE FROM items WHERE id = $1`,
			`PREPARE SELECT items | select "id", "name" from "items"`,
			`COPY items | copy "items" ( "id", "name" ) from stdin binary;`,
		}},
		{"pgx describe", withPgx(pgx.QueryExecModeDescribeExec), []string{
			`PREPARE SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`PREPARE SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`PREPARE UPDATE items | UPDATE items SET name = $1 WHERE id = $2 AND name <> ?`,
			`UPDATE items | UPDATE items SET name = $1 WHERE id = $2 AND name <> ?`,
			`PREPARE INSERT items | INSERT INTO items VALUES ($1, $2)`,
			`INSERT items | INSERT INTO items VALUES ($1, $2) | 23505`,
			`postgresql |  | 42601`,
			`PREPARE SELECT DELETE items | SELECT twice($1); DELETE FROM items WHERE id = $1`,
			`SELECT DELETE items | SELECT twice($1); DELETE FROM items WHERE id = $1`,
			`PREPARE SELECT items | select "id", "name" from "items"`,
			`COPY items | copy "items" ( "id", "name" ) from stdin binary;`,
		}},
		{"pgx prepared", withPgx(pgx.QueryExecModeCacheStatement), []string{
			`PREPARE SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`SELECT items | SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7`,
			`PREPARE UPDATE items | UPDATE items SET name = $1 WHERE id = $2 AND name <> ?`,
			`UPDATE items | UPDATE items SET name = $1 WHERE id = $2 AND name <> ?`,
			`PREPARE INSERT items | INSERT INTO items VALUES ($1, $2)`,
			`INSERT items | INSERT INTO items VALUES ($1, $2) | 23505`,
			`Close`,
			`postgresql |  | 42601`,
			`PREPARE SELECT | SELECT twice($1)`,
			`SELECT EXECUTE | SELECT twice($1); EXECUTE stmtcache_08cce122c8eb9b390e5411cc08d2e735de7230a596fa2f2b`,
			`PREPARE SELECT items | select "id", "name" from "items"`,
			`COPY items | copy "items" ( "id", "name" ) from stdin binary;`,
		}},
	} {
		t.Run(client.name, func(t *testing.T) {
			before, to := s.count(), port
			if *recordTo != "" {
				var r recorder
				to = r.listen(t, port)
				defer func() { lines = append(lines, r.end(client.name)...) }()
			}
			client.run(t, to)
			a.settle()
			spans := s.since(before)
			slices.SortStableFunc(spans, func(a, b span.Span) int { return cmp.Compare(a.Start, b.Start) })
			var got []string
			for i := range spans {
				if line := statementOf(&spans[i]); client.name == "psql" || !slices.Contains(beside, line) {
					got = append(got, line)
				}
			}
			if !slices.Equal(got, client.want) {
				t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(client.want, "\n"))
			}
		})
	}
	if *recordTo != "" {
		if err := os.WriteFile(*recordTo, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// beside statements: how a connection begins, and the data of COPY, for which pgx may
// or may not wait until it is asked for them.
var beside = []string{"StartupMessage", "Authentication", "COPY"}

// statementOf is a span's name, its query, and the SQLSTATE of its error.
func statementOf(s *span.Span) string {
	text, _ := s.Attr("db.query.text")
	code, _ := s.Attr("db.response.status_code")
	return strings.TrimRight(fmt.Sprintf("%s | %s | %s", s.Name, text.Str, code.Str), " |")
}

func connectPostgres(t *testing.T, port, user, password string, mode pgx.QueryExecMode) (*pgx.Conn, error) {
	t.Helper()
	config, err := pgx.ParseConfig("postgres://" + user + ":" + password + "@127.0.0.1:" + port + "/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = mode
	config.RuntimeParams["client_encoding"] = "UTF8" // wanted by the simple protocol
	return pgx.ConnectConfig(t.Context(), config)
}

// usePgx has what services do: the same statement twice, changes, an error, several
// at once, COPY.
func usePgx(t *testing.T, port string, mode pgx.QueryExecMode) {
	conn, err := connectPostgres(t, port, "anna", "hunter2", mode)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for id := range 2 {
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM items WHERE id = $1 AND name <> $2 -- request 7", id, "seventeen").Scan(&n); err != nil {
			t.Error(err)
		}
	}
	if _, err := conn.Exec(t.Context(), "UPDATE items SET name = $1 WHERE id = $2 AND name <> 'secret'", "one", 1); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO items VALUES ($1, $2)", 1, strings.Repeat("seventeen", 100)); err == nil {
		t.Error("a key was inserted twice")
	}
	if _, err := conn.Exec(t.Context(), "SELEC "+strings.Repeat("secret ", 40)); err == nil {
		t.Error("a wrong statement was taken")
	}
	batch := &pgx.Batch{}
	batch.Queue("SELECT twice($1)", 17)
	batch.Queue("DELETE FROM items WHERE id = $1", 18)
	if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Error(err)
	}
	rows := [][]any{{20 + int(mode), "secret"}}
	if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"items"}, []string{"id", "name"}, pgx.CopyFromRows(rows)); err != nil {
		t.Error(err)
	}
	if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// Bytes that the kernel side hands over: TARE_PAYLOAD_START, TARE_PAYLOAD_DATA.
const (
	requestSeen  = 192
	responseSeen = 48
)

// recorder stands between clients and a server, and notes the beginning of every
// request and of its response, as far as the kernel side hands them over.
type recorder struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	lines []string
}

// listen returns the port at which to ask in place of the server's.
func (r *recorder) listen(t *testing.T, server string) (port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.listener = l
	r.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.pass(client, "127.0.0.1:"+server) })
		}
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// end returns a line for each request: connection, size, beginning, response.
func (r *recorder) end(name string) []string {
	r.listener.Close()
	r.wg.Wait()
	for i := range r.lines {
		r.lines[i] = name + "\t" + r.lines[i]
	}
	return r.lines
}

func (r *recorder) pass(client net.Conn, server string) {
	defer client.Close()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer conn.Close()
	var mu sync.Mutex
	var request, response []byte
	flush := func() {
		if len(request) > 0 {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lines = append(r.lines, fmt.Sprintf("%s\t%d\t%q\t%q", client.RemoteAddr(), len(request),
				request[:min(len(request), requestSeen)], response[:min(len(response), responseSeen)]))
		}
		request, response = nil, nil
	}
	copyTo := func(to, from net.Conn, note func([]byte)) {
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			mu.Lock()
			note(buf[:n])
			mu.Unlock()
			if n > 0 {
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				if err == io.EOF {
					_ = to.(*net.TCPConn).CloseWrite() // nothing more comes
				}
				return
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		copyTo(conn, client, func(b []byte) {
			if len(response) > 0 {
				flush()
			}
			request = append(request, b...)
		})
	})
	copyTo(client, conn, func(b []byte) { response = append(response, b...) })
	wg.Wait()
	flush()
}
