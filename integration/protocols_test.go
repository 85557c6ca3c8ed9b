package integration

import (
	"cmp"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/span"
)

// Spans say what clients of MariaDB, memcached and redis asked, and nothing of values
// and passwords. Of a statement MariaDB's have the first 47 bytes: the server reads a
// packet's header before its body.
func TestProtocolSpans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		service, client, system string
		needs                   []string
		want                    []string
	}{
		{"mariadb", "pymysql", "mysql", []string{"mariadbd", "/usr/lib/python3/dist-packages/pymysql"}, []string{
			`HandshakeResponse`,
			`CREATE | CREATE DATABASE shop`,
			`COM_INIT_DB`,
			`CREATE | CREATE TABLE items (id int PRIMARY KEY)`,
			`INSERT items | INSERT INTO items VALUES (?)`,
			`INSERT items | INSERT INTO items VALUES (?) | 1062`,
			`SELECT items | SELECT * FROM items WHERE id < ?`,
			`SELECT item | SELECT * FROM item WHERE id = ? | 1146`,
			`SELECT | SELECT ?, ?, ?, ?`,
			`COM_QUERY |  | 1064`,
			`COM_PING`,
			`COM_QUIT`,
		}},
		{"memcached", "pylibmc", "memcached", []string{"memcached", "/usr/lib/python3/dist-packages/pylibmc"}, []string{
			`set | set item:7 ?`,
			`get | get item:7`,
			`get | get item:8`,
			`add | add item:7 ?`,
			`incr | incr item:7 ? | 0x0006`,
			`delete | delete item:7`,
			`quit | quit`,
		}},
		{"redis", "resp3", "redis", []string{"redis-server"}, []string{
			`HELLO | HELLO ?`,
			`HSET | HSET cart ?`,
			`HGETALL | HGETALL cart`,
			`GET | GET cart | WRONGTYPE`,
			`HELLO | HELLO ? | WRONGPASS`,
		}},
	} {
		t.Run(c.service, func(t *testing.T) {
			t.Parallel()
			need(t, append(c.needs, "/usr/bin/python3")...)
			v, s := newServers(t, c.service), newSink(t)
			port := v.env[len(v.env)-1]
			a := trace(t, s, nil, v.ports...)
			out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", testdata("clients.py"), c.client, port[strings.IndexByte(port, '=')+1:]).CombinedOutput()
			t.Logf("%v %s", err, out)
			a.settle()
			spans := s.all()
			slices.SortStableFunc(spans, func(a, b span.Span) int { return cmp.Compare(a.Start, b.Start) })
			var got []string
			for i := range spans {
				got = append(got, statementOf(&spans[i]))
				if system, _ := spans[i].Attr("db.system.name"); system.Str != c.system {
					t.Errorf("%s", describe(&spans[i]))
				}
				for _, secret := range []string{"seventeen", "secret", "hunter2"} {
					if strings.Contains(describe(&spans[i]), secret) {
						t.Errorf("%q is in %s", secret, describe(&spans[i]))
					}
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
