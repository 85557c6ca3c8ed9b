package spans

import (
	"strings"
	"testing"
)

func TestRESP3(t *testing.T) {
	get := "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	for response, want := range map[string]string{
		"-ERR wrong\r\n":                   "ERR",
		"!21\r\nSYNTAX invalid syntax\r\n": "SYNTAX",
		">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nn\r\n-ERR wrong\r\n":      "ERR",
		"|1\r\n+ttl\r\n:3600\r\n-ERR wrong\r\n":                           "ERR",
		">2\r\n$10\r\ninvalidate\r\n_\r\n_\r\n":                           "",
		">2\r\n$10\r\ninvali":                                             "",
		"$4\r\n-ERR\r\n":                                                  "",
		">99999999\r\n-ERR\r\n":                                           "",
		"|1\r\n" + strings.Repeat("*1\r\n", 9) + ":1\r\n+x\r\n-ERR x\r\n": "",
	} {
		if f := identify(whole(get, response)); f.failure != want || f.target != "GET k" {
			t.Errorf("%q: %+v", response, f)
		}
	}
}

// What a server reads in pieces, or answers in an order of its own.
func TestLengths(t *testing.T) {
	const (
		mongo   = "\x10\x01\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00"
		answer  = "\x26\x00\x00\x00\x09\x00\x00\x00\x07\x00\x00\x00\xdd\x07\x00\x00"
		fcgi    = "\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
		publish = "\x01\x00\x01\x00\x00\x00\x0f\x00<\x00(\x00\x00\x06orders\x00\x00"
	)
	for name, c := range map[string]struct {
		x    exchange
		want string
	}{
		"MongoDB, its header":          {exchange{[]byte(mongo), []byte(answer), 272, nil}, "mongodb"},
		"MongoDB, no response":         {exchange{[]byte(mongo), nil, 272, nil}, "tcp"},
		"MongoDB, another id":          {exchange{[]byte(mongo), []byte(strings.Replace(answer, "\x07", "\x08", 1)), 272, nil}, "tcp"},
		"MongoDB, a flag of nobody's":  {whole("\x1a\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x08\x00\x00\x00\x00\x05\x00\x00\x00\x00", answer), "tcp"},
		"Kafka":                        {whole(kafkaBeat, "\x00\x00\x00\x06\x00\x00\x00\x05\x00\x00"), "kafka"},
		"Kafka, no response":           {whole(kafkaBeat, ""), "kafka"},
		"Kafka, an earlier response":   {whole(kafkaBeat, "\x00\x00\x00\x06\x00\x00\x00\x03\x00\x07"), "kafka"},
		"Kafka, a later response":      {whole(kafkaBeat, "\x00\x00\x00\x06\x00\x00\x00\x06\x00\x00"), "tcp"},
		"Kafka, a length":              {whole(kafkaBeat, "\x00\x00\x00\x06"), "kafka"},
		"Kafka, a name of nobody":      {whole(strings.Replace(kafkaBeat, "shop", "s\x01op", 1), "\x00\x00\x00\x06\x00\x00\x00\x05\x00\x00"), "tcp"},
		"Kafka, a version":             {whole(strings.Replace(kafkaBeat, "\x0c\x00\x00", "\x0c\x00\x09", 1), "\x00\x00\x00\x06\x00\x00\x00\x05\x00\x00"), "tcp"},
		"FastCGI, its beginning":       {whole(fcgi, "\x01\x06\x00\x01\x00\x10\x00\x00"), "fastcgi"},
		"FastCGI, of another request":  {whole(fcgi, "\x01\x06\x00\x02\x00\x10\x00\x00"), "tcp"},
		"FastCGI, padding":             {whole(strings.Replace(fcgi, "\x08\x00", "\x08\x08", 1), ""), "tcp"},
		"AMQP":                         {whole(publish+"\xce", ""), "rabbitmq"},
		"AMQP, another end":            {whole(publish+"\xcf", ""), "tcp"},
		"AMQP, channel 0":              {whole(strings.Replace(publish, "\x01\x00\x01", "\x01\x00\x00", 1)+"\xce", ""), "tcp"},
		"AMQP 1.0":                     {whole("AMQP\x00\x01\x00\x00", "AMQP\x00\x01\x00\x00"), "tcp"},
		"memcached":                    {whole("\x80\x0a"+strings.Repeat("\x00", 22), "\x81\x0a"+strings.Repeat("\x00", 22)), "memcached"},
		"memcached, another operation": {whole("\x80\x0a"+strings.Repeat("\x00", 22), "\x81\x0b"+strings.Repeat("\x00", 22)), "tcp"},
		"memcached, extras":            {whole("\x80\x0a\x00\x00\x04\x00\x00\x00\x00\x00\x00\x04"+strings.Repeat("\x00", 16), ""), "tcp"},
		"zeroes":                       {whole(strings.Repeat("\x00", 64), strings.Repeat("\x00", 48)), "tcp"},
		"ones":                         {whole(strings.Repeat("\x01", 64), strings.Repeat("\x01", 48)), "tcp"},
	} {
		if f := identify(c.x); string(f.protocol) != c.want {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// kafkaBeat is a Heartbeat of version 0.
const kafkaBeat = "\x00\x00\x00\x1a\x00\x0c\x00\x00\x00\x00\x00\x05\x00\x04shop\x00\x02g1\x00\x00\x00\x01\x00\x02m1"

// A response with an earlier correlation is of an earlier request: its error, too.
func TestKafkaPipelined(t *testing.T) {
	if f := identify(whole(kafkaBeat, "\x00\x00\x00\x06\x00\x00\x00\x05\x00\x1b")); f.failure != "27" || f.group != "g1" {
		t.Errorf("%+v", f)
	}
	if f := identify(whole(kafkaBeat, "\x00\x00\x00\x06\x00\x00\x00\x04\x00\x1b")); f.failure != "" || f.operation != "Heartbeat" {
		t.Errorf("%+v", f)
	}
}
