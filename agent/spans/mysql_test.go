package spans

import (
	"fmt"
	"strings"
	"testing"
)

// my makes a packet.
func my(number byte, body string) string {
	return string([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), number}) + body
}

const (
	myOK      = "\x07\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"
	myColumns = "\x01\x00\x00\x01\x01\x1e\x00\x00\x02\x03def"
)

func whole(request, response string) exchange {
	return exchange{[]byte(request), []byte(response), len(request), nil}
}

func TestMySQLText(t *testing.T) {
	for _, c := range []struct {
		text string
		want statement
	}{
		{"SELECT `a` FROM `shop`.`items` WHERE b = \"secret\"", statement{"SELECT `a` FROM `shop`.`items` WHERE b = ?", "SELECT", "SELECT shop.items", "shop.items"}},
		{"SELECT \"it's\", 'say \"secret\"' FROM t", statement{"SELECT ?, ? FROM t", "SELECT", "SELECT t", "t"}},
		{"SELECT 'it\\'s' FROM secret", statement{"SELECT ?", "SELECT", "SELECT", ""}}, // by the server's settings
		{"SELECT \"it\\\"s\" FROM secret", statement{"SELECT ?", "SELECT", "SELECT", ""}},
		{"SELECT a # it's\nFROM t -- it's\nWHERE b = 'secret'", statement{"SELECT a FROM t WHERE b = ?", "SELECT", "SELECT t", "t"}},
		{"SELECT 5--'secret\n, hunter2' FROM t", statement{"SELECT ?--? FROM t", "SELECT", "SELECT t", "t"}},
		{"SELECT /* /* it's */ a FROM t WHERE b = 'secret'", statement{"SELECT a FROM t WHERE b = ?", "SELECT", "SELECT t", "t"}},
		{"SELECT /*! STRAIGHT_JOIN */ a FROM t", statement{"SELECT a FROM t", "SELECT", "SELECT t", "t"}},
		{"SELECT /*!99999 it's */ 'secret' FROM t", statement{"SELECT", "SELECT", "SELECT", ""}},
		{"SELECT /*!50000 '*/' , 'secret' */ FROM t", statement{"SELECT", "SELECT", "SELECT", ""}},
		{"SELECT $a$ FROM t WHERE b = '$a$'", statement{"SELECT $a$ FROM t WHERE b = ?", "SELECT", "SELECT t", "t"}},
		{"REPLACE INTO t VALUES (?, 17)", statement{"REPLACE INTO t VALUES (?, ?)", "REPLACE", "REPLACE t", "t"}},
		{"INSERT IGNORE INTO t SET a = 'secret' ON DUPLICATE KEY UPDATE a = 'secret'", statement{"INSERT IGNORE INTO t SET a = ? ON DUPLICATE KEY UPDATE a = ?", "INSERT", "INSERT t", "t"}},
		{"UPDATE LOW_PRIORITY IGNORE t SET a = 1", statement{"UPDATE LOW_PRIORITY IGNORE t SET a = ?", "UPDATE", "UPDATE t", "t"}},
		{"DELETE t FROM t JOIN u USING (a)", statement{"DELETE t FROM t JOIN u USING (a)", "DELETE", "DELETE t u", ""}},
		{"SET PASSWORD FOR 'anna'@'%' = 'secret'", statement{"SET PASSWORD FOR ?@? = ?", "SET", "SET", ""}},
		{"SELECT _utf8mb4'secret', x'17', N'secret', @a := 'secret' FROM t", statement{"SELECT _utf8mb4?, ?, ?, @a := ? FROM t", "SELECT", "SELECT t", "t"}},
		{"USE shop", statement{"USE shop", "USE", "USE", ""}},
		{"secret", statement{}},
	} {
		if got := readMySQL([]byte(c.text), false); got != c.want {
			t.Errorf("%q: %+v\nwant %+v", c.text, got, c.want)
		}
	}
}

func TestMySQL(t *testing.T) {
	query := my(0, "\x03SELECT a FROM t WHERE b = 'secret'")
	long := my(0, "\x03SELECT a FROM t WHERE b = "+strings.Repeat("'secret' ", 99))
	for name, c := range map[string]struct {
		x    exchange
		want string // protocol, operation and text; failure
	}{
		"a query":            {whole(query, myColumns), "mysql SELECT SELECT a FROM t WHERE b = ?"},
		"no response":        {whole(query, ""), "mysql SELECT SELECT a FROM t WHERE b = ?"},
		"its header alone":   {whole(query, "\x01\x00\x00\x01"), "mysql SELECT SELECT a FROM t WHERE b = ?"},
		"cut off":            {exchange{[]byte(long[:192]), []byte(myColumns), len(long), nil}, "mysql SELECT SELECT a FROM t WHERE b =" + strings.Repeat(" ?", 18)},
		"read in two pieces": {exchange{[]byte(long[:52]), []byte(myColumns), len(long), nil}, "mysql SELECT SELECT a FROM t WHERE b = ? ? ?"},
		"attributes":         {whole(my(0, "\x03\x00\x01SELECT 'secret'"), myColumns), "mysql SELECT SELECT ?"},
		"some attributes":    {whole(my(0, "\x03\x01\x01\x00\x01\xfe\x00\x01a\x06secretSELECT 1"), myColumns), "mysql COM_QUERY"},
		"ping":               {whole(my(0, "\x0e"), myOK), "mysql COM_PING"},
		"quit":               {whole(my(0, "\x01"), ""), "mysql COM_QUIT"},
		"an error, cut off":  {whole(query, "\x20\x00\x00\x01\xff\x7a"), "mysql SELECT SELECT a FROM t WHERE b = ? _OTHER"},
		"before 4.1":         {whole(query, my(1, "\xff\x10\x04Too many connections")), "mysql SELECT SELECT a FROM t WHERE b = ? _OTHER"},
		"an error":           {whole(query, my(1, "\xff\x7a\x04#42S02No such table")), "mysql SELECT SELECT a FROM t WHERE b = ? 42S02"},

		"ping, no response":    {whole(my(0, "\x0e"), ""), "tcp"},
		"not all of it":        {whole(query[:20], myColumns), "tcp"},
		"more than it":         {whole(query+"more!", myColumns), "tcp"},
		"another number":       {whole(query, "\x07\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00"), "tcp"},
		"another server":       {whole(query, "HTTP/1.1 400 Bad Request\r\n"), "tcp"},
		"another command":      {whole(my(0, "\x20SELECT 1"), myOK), "tcp"},
		"no text, no response": {whole(my(0, "\x03secret"), ""), "tcp"},
		"no answer to it":      {whole(my(0, "\x19\x01\x00\x00\x00"), myOK), "tcp"},
		"not once":             {whole(my(0, "\x17\x01\x00\x00\x00\x00\x02\x00\x00\x00"), myOK), "tcp"},
		"a number of its own":  {whole(my(3, "\x03SELECT 1"), "\x07\x00\x00\x04\x00\x00\x00\x02\x00\x00\x00"), "tcp"},
	} {
		f := identify(c.x)
		if got := strings.Join(strings.Fields(fmt.Sprint(f.protocol, " ", f.operation, " ", f.target, " ", f.failure)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A server reads the header of a packet before its body, so that it comes in pieces.
func TestMySQLInPieces(t *testing.T) {
	f := newFixture(Config{})
	query := my(0, "\x03SELECT a FROM t WHERE b = 'secret'")
	f.start(1, server, 1, query[:4], nil)
	f.data(1, received, 2, query[4:])
	f.data(1, sent, 3, myColumns)
	f.end(1, closed, 0)
	if s := f.spans[0]; s.Name != "SELECT t" || attrs(s)["db.query.text"] != "SELECT a FROM t WHERE b = ?" {
		t.Errorf("%v", s)
	}
}

// A prepared statement is known as long as no request of its connection is missing;
// so is what the server has asked for.
func TestMySQLConnection(t *testing.T) {
	prepare := turn{request: my(0, "\x16SELECT a FROM t WHERE b = ?"), response: my(1, "\x00\x07\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00")}
	execute := turn{request: my(0, "\x17\x07\x00\x00\x00\x00\x01\x00\x00\x00"), response: myColumns}
	infile := turn{request: my(0, "\x03LOAD DATA LOCAL INFILE 'f' INTO TABLE t"), response: my(1, "\xfbf")}
	data := turn{request: my(2, "secret") + my(3, ""), response: my(4, "\x00\x00\x00\x02\x00\x00\x00")}
	ok := func(request string) turn { return turn{request: my(0, request), response: myOK} }
	for name, c := range map[string]struct {
		turns   []turn
		missing bool // of the request before the last
		want    string
	}{
		"at once":           {turns: []turn{prepare, execute}, want: "SELECT t"},
		"later":             {turns: []turn{prepare, ok("\x0e"), execute}, want: "SELECT t"},
		"missing":           {turns: []turn{prepare, execute}, missing: true, want: "COM_STMT_EXECUTE"},
		"another":           {turns: []turn{prepare, {request: my(0, "\x17\x08\x00\x00\x00\x00\x01\x00\x00\x00"), response: myColumns}}, want: "COM_STMT_EXECUTE"},
		"closed":            {turns: []turn{prepare, ok("\x19\x07\x00\x00\x00" + my(0, "\x0e")), execute}, want: "COM_STMT_EXECUTE"},
		"renewed":           {turns: []turn{prepare, ok("\x1f"), execute}, want: "COM_STMT_EXECUTE"},
		"failed":            {turns: []turn{{request: prepare.request, response: my(1, "\xff\x28\x04#42000no")}, execute}, want: "COM_STMT_EXECUTE"},
		"a file":            {turns: []turn{infile, data}, want: "LOCAL INFILE"},
		"a file of nobody":  {turns: []turn{infile, data}, missing: true, want: "tcp"},
		"a file, not asked": {turns: []turn{ok("\x03SELECT 1"), data}, want: "tcp"},
	} {
		if name == "closed" { // in one write with the next command
			c.turns[1].request = my(0, "\x19\x07\x00\x00\x00") + my(0, "\x0e")
		}
		f := newFixture(Config{})
		for i, tn := range c.turns {
			tn.size = uint32(len(tn.request))
			ends := uint64(i)
			if i == len(c.turns)-1 && c.missing {
				f.end(ends, next, 0)
				ends = 0
			}
			f.turn(uint64(i)+1, ends, client, tn)
		}
		f.FinishAll()
		if got := f.spans[len(f.spans)-1].Name; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The memory is bounded, however many statements there are.
func TestMySQLForgets(t *testing.T) {
	f := newFixture(Config{})
	for i := range uint64(3 * mostStatements) {
		request := my(0, "\x16SELECT 1")
		response := my(1, "\x00"+string([]byte{byte(i), byte(i >> 8), byte(i >> 16), 0})+"\x01\x00\x00\x00\x00\x00\x00")
		f.turn(i+1, i, client, turn{request: request, response: response, size: uint32(len(request))})
		f.FinishAll()
		if len(f.statements) > mostStatements || len(f.connections) > mostConnections {
			t.Fatalf("%d statements, %d connections", len(f.statements), len(f.connections))
		}
	}
}

// A login is none of the connection's requests, and of its content nothing is kept.
func TestMySQLLogin(t *testing.T) {
	login := func(capabilities string) string {
		return my(1, capabilities+"\x00\x00\x00\x01\x2d"+strings.Repeat("\x00", 23)+"anna\x00\x06secret")
	}
	secure := my(1, "\x0d\xaa\x3a\x00\x00\x00\x00\x01\x2d"+strings.Repeat("\x00", 23))
	for name, c := range map[string]struct {
		x    exchange
		want string
	}{
		"login":            {whole(login("\x0d\xa2\x3a\x00"), "\x07\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00"), "HandshakeResponse"},
		"refused":          {whole(login("\x0d\xa2\x3a\x00"), "\x09\x00\x00\x02\xff\x15\x04#28000"), "HandshakeResponse"},
		"no capabilities":  {whole(login("\x0d\x00\x3a\x00"), "\x07\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00"), ""},
		"TLS":              {whole(secure, ""), "SSLRequest"},
		"TLS at once":      {whole(secure+"\x16\x03\x01\x00\xc8\x01", "\x16\x03\x03"), "SSLRequest"},
		"something behind": {whole(secure+"secret", "\x16\x03\x03"), ""},
	} {
		f := identify(c.x)
		if f.operation != c.want || (c.want == "") != (f.protocol == protocolTCP) || f.target != "" || f.namespace != "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
