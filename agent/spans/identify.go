package spans

import (
	"bytes"
	"strings"
)

// protocol is the name under which a protocol stands in a span.
type protocol string

const (
	protocolTCP       protocol = "tcp" // unknown
	protocolTLS       protocol = "tls"
	protocolHTTP      protocol = "http"
	protocolRedis     protocol = "redis"
	protocolMemcached protocol = "memcached"
	protocolPostgres  protocol = "postgresql"
	protocolMySQL     protocol = "mysql" // MariaDB, too: its commands are the same
	protocolMongoDB   protocol = "mongodb"
	protocolKafka     protocol = "kafka"
	protocolAMQP      protocol = "rabbitmq" // AMQP 0-9-1
	protocolFastCGI   protocol = "fastcgi"
	protocolDNS       protocol = "dns"
)

// facts are what the beginnings of a request and its response tell.
type facts struct {
	protocol   protocol
	operation  string // HTTP method (otherFailure: it is original), database command
	original   string // HTTP method that is none of methods
	target     string // path without query string; command with its key, query without values
	batch      int    // how many operations the request has, if that is known and they are several
	cut        bool   // the path goes on behind the bytes that were seen
	version    string // of HTTP; of a request to Kafka
	status     int    // of HTTP, 0 if unknown
	failure    string // of a database: error prefix, SQLSTATE; of others a code; otherFailure
	code       string // of a database, where failure is not what it calls its code
	namespace  string // database
	summary    string // of a query
	collection string // its only table
	unanswered bool   // nothing answers it
	postgres   *pgRequest
	mysql      *myRequest

	sends       string // send, receive, settle: what is done with messages
	destination string // topic, exchange and routing key, queue
	place       string // the same in the span's name, where it has few values
	routing     string // key
	group       string // of consumers
}

// otherFailure is an error whose kind is not known, by the conventions for error.type;
// and a method that is not known, by those for http.request.method.
const otherFailure = "_OTHER"

// ofText are protocols that begin with a word, beside HTTP; ofLengths those that have none.
var (
	ofText = []func(exchange) (facts, bool){
		identifyRedis,
		func(x exchange) (facts, bool) { return identifyMemcached(x.request, x.response) },
	}
	ofLengths = []func(exchange) (facts, bool){
		identifyPostgres, identifyMySQL, identifyMongoDB, identifyKafka, identifyAMQP, identifyFastCGI, identifyMemcachedBinary,
	}
)

// identify reads the first bytes of a request and of its response. Any number of
// protocols begin with lengths and small numbers: what two of them could have is
// neither's.
func identify(x exchange) (found facts) {
	if identifyHTTP(x, &found) {
		return found
	}
	for _, read := range ofText {
		if f, ok := read(x); ok {
			return f
		}
	}
	found.protocol = protocolTCP
	for _, read := range ofLengths {
		if f, ok := read(x); ok && found.protocol != protocolTCP {
			return facts{protocol: protocolTCP}
		} else if ok {
			found = f
		}
	}
	// RFC 8446 5.1; with a third byte of 0, SSL 3, more likely a length of MySQL's
	if r := x.request; found.protocol == protocolTCP && len(r) >= 3 && r[0] >= 20 && r[0] <= 23 && r[1] == 3 && r[2] != 0 {
		return facts{protocol: protocolTLS}
	}
	return found
}

// methods are those of HTTP that OpenTelemetry's conventions know, and the name of all others.
var methods = [...]string{1: "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "QUERY", otherFailure}

const otherMethod = uint8(len(methods) - 1)

func methodOf[T string | []byte](word T) uint8 {
	for i := uint8(1); i < otherMethod; i++ {
		if string(word) == methods[i] {
			return i
		}
	}
	return otherMethod
}

// identifyHTTP reads "METHOD target HTTP/1.x"; RFC 9112 section 3. The line
// may be cut off anywhere behind the method.
func identifyHTTP(x exchange, f *facts) bool {
	request, response := x.request, x.response
	n := bytes.IndexByte(request, ' ')
	if n < 0 {
		return false
	}
	method, version := methodOf(request[:n]), "1.1"
	answered := len(response) >= 12 && string(response[:7]) == "HTTP/1."
	target, digit := plainTarget(request[n+1:])
	if target != nil && method != otherMethod { // nearly every request
		f.target = x.texts.keep(append(x.texts.begin(len(target)), target...))
		if digit == '0' {
			version = "1.0"
		}
	} else {
		line, _, ends := bytes.Cut(request[n+1:], crlf)
		target, last, follows := bytes.Cut(line, []byte(" "))
		if method == otherMethod {
			if !isOtherMethod(request[:n], target, last, response, answered) {
				return false
			}
			f.original = printable(request[:n])
		}
		f.cut = !ends && !follows && !bytes.ContainsAny(target, queryBegins)
		f.target = httpPath(target, x.texts)
		if string(last) == "HTTP/1.0" {
			version = "1.0"
		}
	}
	f.protocol, f.operation, f.version = protocolHTTP, methods[method], version
	if answered { // "HTTP/1.1 200"
		f.status = statusOf([3]byte(response[9:]))
	}
	return true
}

// plain are the characters of a path that stand in a span as they are, but for a colon: what is before it may be a scheme.
var plain = func() (is [256]bool) {
	for c := '!'; c <= '~'; c++ {
		is[c] = c != ':' && !strings.ContainsRune(queryBegins, c)
	}
	return is
}()

// plainTarget is the target of a request of HTTP/1, if it is a path of such characters and the line ends as it should,
// and the last digit of the version. b is the line behind the method. nil if not.
func plainTarget(b []byte) (target []byte, digit byte) {
	n := 0
	for n < len(b) && plain[b[n]] {
		n++
	}
	end := b[n:]
	if n == 0 || len(end) < len(lineEnd) || string(end[:8]) != lineEnd[:8] || end[9] != '\r' || end[10] != '\n' || end[8]|1 != '1' {
		return nil, 0
	}
	return b[:n], end[8]
}

// maxMethod is how long a method is believed to be, in bytes.
const maxMethod = 32

// isOtherMethod says whether a line with a word that is no known method is a request of
// HTTP: its other parts or the response say so, and it is no command of memcached,
// unless HTTP answers it.
func isOtherMethod(method, target, version, response []byte, answered bool) bool {
	if len(method) == 0 || len(method) > maxMethod || len(target) == 0 || target[0] != '/' && target[0] != '*' && !bytes.Contains(target, []byte("://")) {
		return false
	}
	upper := true
	for _, c := range method { // of RFC 9110 5.6.2
		letter := c >= 'A' && c <= 'Z'
		upper = upper && (letter || c == '-' || c == '_')
		if !letter && (c < 'a' || c > 'z') && (c < '0' || c > '9') && !bytes.ContainsRune([]byte("!#$%&'*+-.^_`|~"), rune(c)) {
			return false
		}
	}
	return answered || upper && len(response) == 0 && (string(version) == "HTTP/1.1" || string(version) == "HTTP/1.0")
}

var crlf = []byte("\r\n")

const lineEnd = " HTTP/1.1\r\n"

const queryBegins = "?#" // or a fragment; either ends a path

// statusOf is a number of three digits, 0 if it is none.
func statusOf(b [3]byte) (n int) {
	for i, c := range b {
		if c < '0' || c > '9' || i == 0 && c == '0' {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// httpPath drops the query string, and scheme and authority of the absolute
// form, so that neither secrets nor credentials get into a span.
func httpPath(target []byte, texts *arena) string {
	if i := bytes.IndexAny(target, queryBegins); i >= 0 {
		target = target[:i]
	}
	if i := bytes.Index(target, []byte("://")); i > 0 {
		target = target[i+3:]
		j := bytes.IndexByte(target, '/')
		if j < 0 {
			return "/"
		}
		target = target[j:]
	}
	return texts.printable(target)
}

// printable is the text of bytes, without what would break a terminal or is
// not UTF-8.
func printable(b []byte) string { return (*arena)(nil).printable(b) }
