package spans

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

// clients are what testdata has: what programs sent, and what their servers answered.
var clients = []struct {
	name, system string
	holds        func(exchange) (facts, bool)
}{
	// psql and pgbench 15.18, pgx 5.11, JDBC 42.5.5; PostgreSQL 15.18. TestPostgresSpans
	// of integration/ records the first three.
	{"postgres", "postgresql", identifyPostgres},
	// PyMySQL 1.0.2, mariadb and mariadb-admin 10.11, DBD::MariaDB 1.22, PHP 8.2; MariaDB 10.11
	{"mysql", "mysql", identifyMySQL},
	// PyMongo 4.20 encoded the requests, and bson responses made up by hand
	{"mongodb", "mongodb", identifyMongoDB},
	// kafka-python 3.0.12 encoded both
	{"kafka", "kafka", identifyKafka},
	// Pika 1.2.0; RabbitMQ 3.10.8
	{"amqp", "rabbitmq", identifyAMQP},
	// nginx 1.22 and cgi-fcgi 2.4.2; php-fpm 8.2
	{"fastcgi", "fastcgi", identifyFastCGI},
	// pylibmc 1.6.3, memccat, memcrm and memcexist of libmemcached 1.1.4; memcached 1.6.18
	{"memcached", "memcached", identifyMemcachedBinary},
	// redis 7.0.15, with HELLO 3
	{"redis", "redis", ofText[0]},
}

// turn is a request of a client and its response, as far as the kernel side hands
// them over.
type turn struct {
	client, connection string
	size               uint32
	request, response  string
}

func (tn turn) exchange() exchange {
	return exchange{[]byte(tn.request), []byte(tn.response), int(tn.size), nil}
}

func readTurns(t testing.TB, name string) (turns []turn) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 5 {
			t.Fatalf("%q", line)
		}
		size, err1 := strconv.ParseUint(f[2], 10, 32)
		request, err2 := strconv.Unquote(f[3])
		response, err3 := strconv.Unquote(f[4])
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("%q: %v %v %v", line, err1, err2, err3)
		}
		turns = append(turns, turn{f[0], f[1], uint32(size), request, response})
	}
	return turns
}

// turn gives a builder the records of a turn.
func (f *fixture) turn(id, ends uint64, role bpf.TareRole, tn turn) {
	f.start(id, role, id*10, tn.request, func(s *bpf.Start) { s.Ends, s.Bytes = ends, tn.size })
	back := sent
	if role == client {
		back = received
	}
	if tn.response != "" {
		f.data(id, back, id*10+1, tn.response)
	}
}

// protocolLine is a span with what its protocol tells.
func protocolLine(s *span.Span) string {
	line := s.Name
	for _, a := range s.Attrs {
		area, _, _ := strings.Cut(a.Key, ".")
		if slices.Contains([]string{"db", "messaging", "http", "url", "error"}, area) && !slices.Contains([]string{"db.system.name", "messaging.system"}, a.Key) ||
			a.Key == "network.protocol.version" {
			line += " " + strings.TrimPrefix(a.Key, "db.") + "=" + a.Text()
		}
	}
	return line
}

// What clients sent is named as testdata has it, at both ends, without any value or
// password.
func TestClients(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			turns := readTurns(t, c.name)
			for _, role := range []bpf.TareRole{server, client} {
				f := newFixture(Config{})
				last := map[string]uint64{}
				for i, tn := range turns {
					id := uint64(i) + 1
					f.turn(id, last[tn.connection], role, tn)
					last[tn.connection] = id
				}
				if c.name == "postgres" && len(f.statements) == 0 {
					t.Error("no statement is remembered")
				}
				for _, id := range last {
					f.end(id, closed, 0)
				}
				if len(f.connections) != 0 {
					t.Errorf("%d connections are remembered", len(f.connections))
				}
				slices.SortFunc(f.spans, func(a, b span.Span) int { return int(int64(a.Start) - int64(b.Start)) })
				got := ""
				for i := range f.spans {
					s := &f.spans[i]
					a := attrs(*s)
					if system := a["db.system.name"] + a["messaging.system"]; system != c.system && a["network.protocol.name"] != c.system {
						t.Errorf("%q is %v", turns[i].request, s)
					}
					if role == server {
						got += turns[i].client + "\t" + protocolLine(s) + "\n"
					}
				}
				for _, secret := range []string{"seventeen", "secret", "hunter2", "SCRAM", "n,,", "r=", "PLAIN", "guest"} {
					if strings.Contains(got, secret) {
						t.Errorf("%q is in a span", secret)
					}
				}
				if role == client { // where status 404 is an error
					continue
				}
				golden := "testdata/" + c.name + ".golden"
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil || string(want) != got {
					t.Errorf("%v: not as in %s (-update):\n%s", err, golden, got)
				}
			}
		})
	}
}

// What is of one protocol is taken for none of the others: not with another response,
// nor without one, nor where only its beginning was seen.
func TestNoOtherProtocol(t *testing.T) {
	var all []turn
	for _, c := range clients {
		all = append(all, readTurns(t, c.name)...)
	}
	for _, c := range clients {
		for _, tn := range readTurns(t, c.name) {
			for n := 1; n <= len(tn.request); n++ {
				for _, size := range []int{int(tn.size), n} {
					for _, response := range []string{tn.response, ""} {
						x := exchange{[]byte(tn.request[:n]), []byte(response), size, nil}
						f := identify(x)
						if f.protocol != protocolTCP && f.protocol != protocol(c.system) {
							t.Fatalf("%s: %q, %q of %d bytes is %s: %+v", c.name, x.request, response, size, f.protocol, f)
						}
					}
				}
			}
			for _, other := range clients {
				if other.name == c.name {
					continue
				}
				for _, of := range all {
					x := tn.exchange()
					x.response = []byte(of.response)
					if f, ok := other.holds(x); ok {
						t.Fatalf("%s: %q answered by %q is %s: %+v", c.name, tn.request, of.response, other.name, f)
					}
				}
			}
		}
	}
}

// fuzzProtocol gives arbitrary messages to a connection that goes on.
func fuzzProtocol(f *testing.F, name string) {
	for _, tn := range readTurns(f, name) {
		f.Add([]byte(tn.request), []byte(tn.response), tn.size)
	}
	f.Fuzz(func(t *testing.T, request, response []byte, size uint32) {
		b := newFixture(Config{})
		for id := uint64(1); id < 4; id++ {
			tn := turn{request: string(request[:min(len(request), bpf.TarePayloadStart)]), response: string(response[:min(len(response), bpf.TarePayloadData)]), size: size}
			b.turn(id, id-1, client, tn)
		}
		b.FinishAll()
		for _, s := range b.spans {
			for _, a := range append(s.Attrs, span.String("name", s.Name)) {
				if strings.ContainsFunc(a.Str, func(c rune) bool { return c < 0x20 || c > 0x7e }) || len(a.Str) > 1024 {
					t.Fatalf("%s is %q", a.Key, a.Str)
				}
			}
		}
	})
}

func FuzzPostgres(f *testing.F)  { fuzzProtocol(f, "postgres") }
func FuzzMySQL(f *testing.F)     { fuzzProtocol(f, "mysql") }
func FuzzMongoDB(f *testing.F)   { fuzzProtocol(f, "mongodb") }
func FuzzKafka(f *testing.F)     { fuzzProtocol(f, "kafka") }
func FuzzAMQP(f *testing.F)      { fuzzProtocol(f, "amqp") }
func FuzzFastCGI(f *testing.F)   { fuzzProtocol(f, "fastcgi") }
func FuzzMemcached(f *testing.F) { fuzzProtocol(f, "memcached") }
func FuzzRedis(f *testing.F)     { fuzzProtocol(f, "redis") }
