package spans

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// pg makes a message.
func pg(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))) + body
}

const (
	pgSync  = "S\x00\x00\x00\x04"
	pgReady = "Z\x00\x00\x00\x05I"
)

// A prepared statement is known as long as no request of its connection is missing,
// and none may have held what was not seen.
func TestPostgresPrepared(t *testing.T) {
	parse := pg('P', "s\x00SELECT a FROM t WHERE b = $1\x00\x00\x00") + pgSync
	bind := pg('B', "\x00s\x00\x00\x00\x00\x01\x00\x00\x00\x011\x00\x00") + pg('E', "\x00\x00\x00\x00\x00") + pgSync
	query := func(text string) string { return pg('Q', text+"\x00") }
	for name, c := range map[string]struct {
		between []string // requests between Parse and Bind
		failed  bool     // of Parse
		missing bool     // of the request before Bind
		quiet   bool     // all spans are finished before Bind
		size    uint32   // of the last of them, if it is more than what was seen
		known   bool
	}{
		"at once":                {known: true},
		"later":                  {between: []string{query("SELECT 1"), bind, pgSync}, known: true},
		"after a while":          {between: []string{query("SELECT 1")}, quiet: true, known: true},
		"a failed Parse":         {failed: true},
		"closed":                 {between: []string{pg('C', "Ss\x00") + pgSync}},
		"another closed":         {between: []string{pg('C', "Sx\x00") + pgSync}, known: true},
		"DEALLOCATE":             {between: []string{query("deallocate all")}},
		"DISCARD":                {between: []string{query("select 1; discard all")}},
		"a request is missing":   {missing: true},
		"more than what is seen": {between: []string{query("SELECT 1")}, size: 500},
		"parsed anew":            {between: []string{pg('P', "s\x00SELECT a FROM t WHERE b = $1\x00\x00\x00") + pgSync}, known: true},
	} {
		f := newFixture(Config{})
		requests := append([]string{parse}, c.between...)
		for i, request := range append(requests, bind) {
			id, tn := uint64(i)+1, turn{request: request, response: "1\x00\x00\x00\x04" + pgReady, size: uint32(len(request))}
			ends := id - 1
			if i == 0 && c.failed {
				tn.response = pg('E', "SERROR\x00C42601\x00")
			}
			if i == len(requests)-1 && c.size > 0 {
				tn.size = c.size
			}
			if i == len(requests) && c.missing {
				f.end(ends, next, 0)
				ends = 0
			}
			if i == len(requests) && c.quiet {
				f.FinishAll()
			}
			f.turn(id, ends, client, tn)
		}
		f.FinishAll()
		got := attrs(f.spans[len(f.spans)-1])["db.query.text"]
		if want := map[bool]string{true: "SELECT a FROM t WHERE b = $1", false: "EXECUTE s"}[c.known]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The memory is bounded, however many statements there are.
func TestPostgresForgets(t *testing.T) {
	f := newFixture(Config{})
	for i := range uint64(3 * mostStatements) {
		request := pg('P', fmt.Sprintf("s%d\x00SELECT 1\x00\x00\x00", i)) + pgSync
		f.turn(i+1, 0, client, turn{request: request, response: pgReady, size: uint32(len(request))})
		f.FinishAll()
		if len(f.statements) > mostStatements || len(f.connections) > mostConnections {
			t.Fatalf("%d statements, %d connections", len(f.statements), len(f.connections))
		}
	}
}

func TestSQL(t *testing.T) {
	for _, c := range []struct {
		text string
		want statement
	}{
		{"SELECT 1", statement{"SELECT ?", "SELECT", "SELECT", ""}},
		{"select\n\t*  from users where id=-1.5e-3", statement{"select * from users where id=-?-?", "SELECT", "SELECT users", "users"}},
		{`SELECT "users"."id" FROM "public"."users"`, statement{`SELECT "users"."id" FROM "public"."users"`, "SELECT", "SELECT public.users", "public.users"}},
		{"SELECT 'it''s', E'it\\'s', $$it's$$, $a$ $$ $a$, B'01', U&'x' FROM t", statement{"SELECT ?, ?, ?, ?, ?, U&? FROM t", "SELECT", "SELECT t", "t"}},
		{`SELECT 'a\' FROM secret WHERE b='c'`, statement{"SELECT ?", "SELECT", "SELECT", ""}}, // by the server's settings
		{"SELECT 'open FROM secret", statement{"SELECT ?", "SELECT", "SELECT", ""}},
		{"SELECT $a$ open FROM secret", statement{"SELECT ?", "SELECT", "SELECT", ""}},
		{"SELECT a /* it's /* secret */ ' */ FROM t -- it's", statement{"SELECT a FROM t", "SELECT", "SELECT t", "t"}},
		{"SELECT a FROM t WHERE b = $1 AND c = 'secret' -- 17", statement{"SELECT a FROM t WHERE b = $1 AND c = ? -- 17", "SELECT", "SELECT t", "t"}},
		{"SELECT a FROM t WHERE b = '$1' -- secret", statement{"SELECT a FROM t WHERE b = ?", "SELECT", "SELECT t", "t"}},
		{"SELECT a FROM t, u x JOIN ONLY v ON x.a = v.b, w WHERE c IN (1, 2)", statement{"SELECT a FROM t, u x JOIN ONLY v ON x.a = v.b, w WHERE c IN (?, ?)", "SELECT", "SELECT t u v w", ""}},
		{"SELECT a FROM t WHERE b IN (SELECT c FROM u)", statement{"SELECT a FROM t WHERE b IN (SELECT c FROM u)", "SELECT", "SELECT t", ""}},
		{"SELECT extract(year FROM d), a IS DISTINCT FROM b FROM t FOR UPDATE", statement{"SELECT extract(year FROM d), a IS DISTINCT FROM b FROM t FOR UPDATE", "SELECT", "SELECT t", "t"}},
		{"SELECT * FROM generate_series(1, 2) g", statement{"SELECT * FROM generate_series(?, ?) g", "SELECT", "SELECT", ""}},
		{"SELECT * FROM (SELECT 1) x", statement{"SELECT * FROM (SELECT ?) x", "SELECT", "SELECT", ""}},
		{"SELECT a FROM t UNION SELECT b FROM u", statement{"SELECT a FROM t UNION SELECT b FROM u", "SELECT", "SELECT t SELECT u", ""}},
		{"WITH x AS (SELECT 1) SELECT * FROM x", statement{"WITH x AS (SELECT ?) SELECT * FROM x", "SELECT", "SELECT", ""}},
		{"WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", statement{"WITH x AS (SELECT ?) INSERT INTO t SELECT * FROM x", "INSERT", "INSERT t SELECT", ""}},
		{"INSERT INTO t (a, b) VALUES ('x', 1) ON CONFLICT DO UPDATE SET a = 'y'", statement{"INSERT INTO t (a, b) VALUES (?, ?) ON CONFLICT DO UPDATE SET a = ?", "INSERT", "INSERT t", "t"}},
		{"UPDATE ONLY t SET a = 1 WHERE b = 2", statement{"UPDATE ONLY t SET a = ? WHERE b = ?", "UPDATE", "UPDATE t", "t"}},
		{"DELETE FROM t USING u", statement{"DELETE FROM t USING u", "DELETE", "DELETE t u", ""}},
		{"TRUNCATE TABLE t, u", statement{"TRUNCATE TABLE t, u", "TRUNCATE", "TRUNCATE t u", ""}},
		{"COPY t (a, b) FROM STDIN", statement{"COPY t (a, b) FROM STDIN", "COPY", "COPY t", "t"}},
		{"BEGIN; SELECT a FROM t;", statement{"BEGIN; SELECT a FROM t;", "", "BEGIN SELECT t", ""}},
		{"ALTER USER anna PASSWORD 'secret'", statement{"ALTER USER anna PASSWORD ?", "ALTER", "ALTER", ""}},
		{"CALL f(1)", statement{"CALL f(?)", "CALL", "CALL", ""}},
		{"secret", statement{}},
		{" -- secret", statement{}},
		{"", statement{}},
	} {
		if got := readSQL([]byte(c.text), false, true); got != c.want {
			t.Errorf("%q: %+v\nwant %+v", c.text, got, c.want)
		}
	}
	// Half of a name is no name, and there may be more tables than are seen.
	for text, want := range map[string]statement{
		"SELECT a FROM custo":      {"SELECT a FROM custo", "SELECT", "SELECT", ""},
		"SELECT a FROM public.":    {"SELECT a FROM public.", "SELECT", "SELECT", ""},
		"SELECT a FROM customers ": {"SELECT a FROM customers", "SELECT", "SELECT customers", ""},
	} {
		if got := readSQL([]byte(text), true, false); got != want {
			t.Errorf("%q, cut: %+v\nwant %+v", text, got, want)
		}
	}
}

// Messages of other protocols, and such as are not quite PostgreSQL's, are none of its.
func TestNotPostgres(t *testing.T) {
	mysql := func(command, body string) string {
		n := len(command) + len(body)
		return string([]byte{byte(n), byte(n >> 8), 0, 0}) + command + body
	}
	pad := func(s string, n int) string { return s + strings.Repeat("x", n-len(s)) }
	mongo := func(size, id int) string {
		b := binary.LittleEndian.AppendUint32(nil, uint32(size))
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
		b = append(b, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0, 0)
		return string(b) + strings.Repeat("\x02a\x00", (size-len(b))/3)
	}
	requests := map[string]string{
		"SMTP":          "EHLO host\r\n",
		"letters":       "QUIT\r\nPASS secret\r\nDATA\r\n",
		"Kafka":         "\x00\x00\x00\x14\x00\x03\x00\x00\x00\x00\x00\x01\x00\x04test\x00\x00\x00\x00\x00\x00",
		"not all of it": pg('Q', "SELECT 1\x00")[:10],
		"more than it":  pg('Q', "SELECT 1\x00") + "more!",
		"no end":        pg('Q', "SELECT 1"),
		"two ends":      pg('Q', "SELECT\x001\x00"),
		"binary":        pg('Q', "\x01\x02\x00"),
		"wrong types":   pg('P', "\x00SELECT 1\x00\x00\x02"),
		"wrong values":  pg('B', "\x00s\x00\x00\x00\x00\x01\x00\x00\x01\x001\x00\x00"),
		"no user":       "\x00\x00\x00\x14\x00\x03\x00\x00usex\x00anna\x00\x00",
		"data alone":    pg('d', "data"),
		"password":      pg('p', "secret\x00"),
	}
	for n := 1; n < 600; n++ {
		requests[fmt.Sprintf("MySQL, %d", n)] = pad(mysql("\x03", strings.Repeat("x", n)), n+5)
		requests[fmt.Sprintf("MySQL's Execute, %d", n)] = mysql("\x17", "\x01\x00\x00\x00\x00\x01\x00\x00\x00"+strings.Repeat("\x00", n))
	}
	for size := 40; size < 0x300; size++ {
		for _, id := range []int{1, 5, 9, 12, 60, 200} {
			requests[fmt.Sprintf("MongoDB, %d, %d", size, id)] = mongo(size, id)
		}
	}
	for name, request := range requests {
		if f := identify(exchange{[]byte(request[:min(len(request), bpf.TarePayloadStart)]), nil, len(request), nil}); f.protocol == protocolPostgres {
			t.Errorf("%s: %q is taken for PostgreSQL: %+v", name, request, f)
		}
	}
	// A response that is none of its server's.
	for _, response := range []string{"HTTP/1.1 200 OK", "+OK\r\n", "\x01\x00\x00\x01\x00", "E\x00\x00\x00\x01"} {
		if f := identify(exchange{[]byte(pg('Q', "SELECT 1\x00")), []byte(response), 14, nil}); f.protocol == protocolPostgres {
			t.Errorf("answered by %q it is taken for PostgreSQL", response)
		}
	}
}

// What is no statement is named by its message, and nothing of it is kept.
func TestPostgresMessages(t *testing.T) {
	secret := "\x00\x00\x00\x01secret"
	for name, c := range map[string]struct{ request, response, want, status string }{
		"TLS?":           {"\x00\x00\x00\x08\x04\xd2\x16\x2f", "S", "SSLRequest", ""},
		"GSS?":           {"\x00\x00\x00\x08\x04\xd2\x16\x30", "N", "GSSENCRequest", ""},
		"cancel":         {"\x00\x00\x00\x10\x04\xd2\x16\x2e" + secret[:8], "", "CancelRequest", ""},
		"protocol 3.2":   {"\x00\x00\x00\x13\x00\x03\x00\x02user\x00anna\x00\x00"[:19], "R\x00\x00\x00\x08\x00\x00\x00\x00", "StartupMessage", ""},
		"a password":     {pg('p', "secret\x00"), pg('E', "SFATAL\x00VFATAL\x00C28P01\x00Mpassword"), "Authentication", "28P01"},
		"a function":     {pg('F', "\x00\x00\x40\x05\x00\x00\x00\x01\x00\x00\x00\x06secret\x00\x01"), pg('V', "\xff\xff\xff\xff") + pgReady, "FunctionCall", ""},
		"data":           {pg('d', "secret\n") + "c\x00\x00\x00\x04", pg('C', "COPY 1\x00"), "COPY", ""},
		"a failed COPY":  {pg('f', "secret\x00"), pg('E', "SERROR\x00C57014\x00"), "COPY", "57014"},
		"the next rows":  {pg('E', "C_1\x00\x00\x00\x00\x0a") + pgSync, pg('D', "\x00\x00"), "EXECUTE", ""},
		"description":    {pg('D', "Ss\x00") + pgSync, pg('t', "\x00\x00"), "Describe", ""},
		"sync":           {pgSync, pgReady, "Sync", ""},
		"the end":        {"X\x00\x00\x00\x04", "", "Terminate", ""},
		"nothing":        {pg('Q', "\x00"), pg('I', "") + pgReady, "postgresql", ""},
		"half an error":  {pg('Q', "SELECT 1\x00"), "E\x00\x00\x00\x60SERROR\x00VERR", "SELECT", "_OTHER"},
		"a late error":   {pg('Q', "SELECT 1\x00"), pg('T', "\x00\x00") + pg('E', "SERROR\x00C22012\x00"), "SELECT", "22012"},
		"a wrong length": {pg('Q', "SELECT 1\x00"), "E\xff\xff\xff\xffSERROR\x00C22012\x00", "tcp", ""},
	} {
		f := newFixture(Config{})
		f.turn(1, 0, client, turn{request: c.request, response: c.response, size: uint32(len(c.request))})
		f.end(1, closed, 0)
		s := f.spans[0]
		if got := attrs(s); s.Name != c.want || got["error.type"] != c.status || (s.Status == span.Error) != (c.status != "") {
			t.Errorf("%s: %q, %v, %v", name, s.Name, s.Status, got)
		}
		for v := range maps.Values(attrs(s)) {
			if strings.Contains(v, "secret") {
				t.Errorf("%s: %v", name, attrs(s))
			}
		}
	}
}

// Whatever is read, a literal does not come out of a statement.
func FuzzSQL(f *testing.F) {
	for _, text := range []string{"SELECT 'x'", "SELECT E'\\'x' -- $1", "WITH a AS (SELECT $$x$$) SELECT * FROM a", `/*/**/*/ "x" $1`} {
		f.Add(text, "17", false)
	}
	f.Fuzz(func(t *testing.T, before, value string, cut bool) {
		readSQL([]byte(before), cut, true)
		if strings.ContainsAny(before, `'"$-/\`) || strings.ContainsAny(value, `'\`) || strings.Contains(before, "Zq7") {
			return
		}
		got := readSQL([]byte("SELECT "+before+" 'Zq7"+value+"' , $$Zq7$$, E'\\'Zq7', "+"'Zq7"), cut, true)
		if strings.Contains(fmt.Sprint(got), "Zq7") {
			t.Errorf("%q: %+v", before+value, got)
		}
	})
}
