package spans

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strconv"
)

const (
	myHeader     = 4         // bytes: a length of three and a number
	myLongest    = 1<<24 - 1 // bytes; a packet of this length goes on in the next one
	myOKLongest  = 1 << 16   // bytes; what changed in a session is in it
	myERRLongest = 1 << 11   // bytes; MYSQL_ERRMSG_SIZE is 512
	myIDLast     = 1<<32 - 1 // MariaDB: the statement that was prepared last
	myProgress   = 1<<16 - 1 // MariaDB: no error, but how far a statement is
)

// myCommand is a command of a client and the length of its packet; most 0: any.
type myCommand struct {
	name        string
	least, most int
	unanswered  bool
}

// Those of replication are left out: they are answered for as long as it lasts.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html
var myCommands = map[byte]myCommand{
	0x01: {"COM_QUIT", 1, 1, true},
	0x02: {"COM_INIT_DB", 2, 257, false},
	0x03: {"COM_QUERY", 2, 0, false},
	0x04: {"COM_FIELD_LIST", 3, 600, false},
	0x05: {"COM_CREATE_DB", 2, 257, false},
	0x06: {"COM_DROP_DB", 2, 257, false},
	0x07: {"COM_REFRESH", 2, 2, false},
	0x08: {"COM_SHUTDOWN", 1, 2, false},
	0x09: {"COM_STATISTICS", 1, 1, false},
	0x0a: {"COM_PROCESS_INFO", 1, 1, false},
	0x0c: {"COM_PROCESS_KILL", 5, 5, false},
	0x0d: {"COM_DEBUG", 1, 1, false},
	0x0e: {"COM_PING", 1, 1, false},
	0x11: {"COM_CHANGE_USER", 4, 0, false},
	0x16: {"COM_STMT_PREPARE", 2, 0, false},
	0x17: {"COM_STMT_EXECUTE", 10, 0, false},
	0x18: {"COM_STMT_SEND_LONG_DATA", 7, 0, true},
	0x19: {"COM_STMT_CLOSE", 5, 5, true},
	0x1a: {"COM_STMT_RESET", 5, 5, false},
	0x1b: {"COM_SET_OPTION", 3, 3, false},
	0x1c: {"COM_STMT_FETCH", 9, 9, false},
	0x1f: {"COM_RESET_CONNECTION", 1, 1, false},
	0xfa: {"COM_STMT_BULK_EXECUTE", 7, 0, false}, // MariaDB
}

// myRequest is what the packets of a request tell.
type myRequest struct {
	command   string // the last that is answered
	statement statement
	namespace string
	prepares  bool
	executes  bool
	id        uint32 // of the statement that is executed
	closed    []uint32
	renewed   bool // what was prepared before is gone
	strong    bool // MySQL can be told by it alone
	silent    bool // no command is answered
	awaits    myAwaited
}

// myAwaited is what a server asked for instead of a command: the next packet has
// this number. Only what came before tells what is in it.
type myAwaited struct {
	number byte
	name   string
}

// myPacket takes the first packet; body is what was seen of it.
func myPacket(b []byte) (n int, number byte, body, rest []byte) {
	n = int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	body = b[myHeader:min(myHeader+n, len(b))]
	return n, b[3], body, b[myHeader+len(body):]
}

// identifyMySQL reads commands, each a packet with the number 0, and what a client
// says when it connects. Lengths have to agree with the size of the request, and the
// response has to be its server's: anything may begin with a length.
func identifyMySQL(x exchange) (f facts, ok bool) {
	f.protocol = protocolMySQL
	q := &myRequest{}
	if name := myLogin(x); name != "" {
		q.command, q.renewed, q.strong = name, true, true
	} else if !q.read(x) {
		return facts{}, false
	}
	if len(x.response) > 0 && (q.silent || !myAnswer(x.response, x.request[3]+1, q)) || len(x.response) == 0 && !q.strong {
		return facts{}, false
	}
	f.mysql, f.operation, f.namespace = q, q.command, q.namespace
	f.failure, f.code = myFailure(x.response)
	switch {
	case q.statement.summary == "":
	case q.prepares:
		f.target, f.operation, f.collection = q.statement.text, "PREPARE", q.statement.collection
		f.summary = "PREPARE " + q.statement.summary
	default:
		f.tell(q.statement)
	}
	f.unanswered = q.silent
	return f, true
}

func (f *facts) tell(s statement) {
	f.target, f.operation, f.summary, f.collection = s.text, s.operation, s.summary, s.collection
}

// read takes commands, up to one that is cut off.
func (q *myRequest) read(x exchange) bool {
	b, left := x.request, x.size
	for len(b) >= myHeader {
		n, number, body, rest := myPacket(b)
		left -= myHeader + n
		if number != 0 || n == 0 || left < 0 || !q.take(body, n) {
			return false
		}
		if len(body) < n {
			return left == 0 || n == myLongest
		}
		b = rest
	}
	return q.command != "" && left == len(b)
}

// take reads a command, of n bytes.
func (q *myRequest) take(body []byte, n int) bool {
	if len(body) == 0 {
		return false
	}
	c, known := myCommands[body[0]]
	if !known || n < c.least || c.most > 0 && n > c.most {
		return false
	}
	kind, body, whole := body[0], body[1:], len(body) == n
	if !c.unanswered || q.command == "" {
		q.command, q.silent = c.name, c.unanswered
	}
	switch kind {
	case 0x01, 0x19: // COM_QUIT, COM_STMT_CLOSE
		q.strong = true
		if len(body) >= 4 {
			q.closed = append(q.closed, binary.LittleEndian.Uint32(body))
		}
	case 0x02, 0x05, 0x06: // COM_INIT_DB, COM_CREATE_DB, COM_DROP_DB
		q.namespace = printable(body)
		return isText(body)
	case 0x03, 0x16: // COM_QUERY, COM_STMT_PREPARE
		// MySQL 8 puts attributes before a query: how many there are, and how many sets
		if kind == 0x03 && len(body) > 1 && body[1] == 1 && body[0] < ' ' {
			if body[0] > 0 {
				return true // the text is behind them
			}
			body = body[2:]
		}
		q.statement = readMySQL(body, !whole)
		q.prepares = kind == 0x16
		q.strong = q.statement.summary != "" && isText(body)
		return q.statement.summary != "" || isText(body)
	case 0x17: // COM_STMT_EXECUTE: id, flags, how often
		if len(body) < 9 {
			return !whole
		}
		q.executes, q.id = true, binary.LittleEndian.Uint32(body)
		return body[4] < 0x10 && binary.LittleEndian.Uint32(body[5:]) == 1
	case 0xfa:
		if len(body) < 4 {
			return !whole
		}
		q.executes, q.id = true, binary.LittleEndian.Uint32(body)
		return len(body) < 6 || binary.LittleEndian.Uint16(body[4:])&^0xc0 == 0
	case 0x04: // COM_FIELD_LIST: a table
		table, _, found := pgString(body)
		return isText(table) && found
	case 0x11: // COM_CHANGE_USER
		q.renewed = true
		user, _, found := pgString(body)
		return isText(user) && len(user) > 0 && (found || !whole)
	case 0x1f: // COM_RESET_CONNECTION
		q.renewed = true
	}
	return true
}

const (
	myCapabilitySSL      = 0x800
	myCapabilityProtocol = 0x200 // 4.1
	myCapabilitySecure   = 0x8000
	mySSLRequest         = 32 // bytes: capabilities, longest packet, character set, 23 of filler
)

// myLogin names what a client says after the server's greeting, "" for anything else.
// Of its content nothing is kept.
func myLogin(x exchange) string {
	if len(x.request) < myHeader+mySSLRequest || x.request[3] != 1 {
		return ""
	}
	n, _, body, rest := myPacket(x.request)
	if n < mySSLRequest {
		return ""
	}
	capabilities := binary.LittleEndian.Uint32(body)
	const both = myCapabilityProtocol | myCapabilitySecure
	// the last four bytes of the filler are MariaDB's capabilities
	if capabilities&both != both || len(bytes.Trim(body[9:28], "\x00")) > 0 {
		return ""
	}
	switch {
	case n == mySSLRequest && capabilities&myCapabilitySSL != 0:
		if len(rest) > 1 && (rest[0] != 0x16 || rest[1] != 3) { // TLS follows, perhaps at once
			return ""
		}
		return "SSLRequest"
	case n+myHeader != x.size || n == mySSLRequest:
		return ""
	}
	user, _, found := pgString(body[mySSLRequest:])
	if !found && len(body) == n || !isText(user) {
		return ""
	}
	return "HandshakeResponse"
}

// myContinued names what the server had asked for, as a part of an authentication, or
// the data of LOAD DATA LOCAL: only the number of its packets tells it.
func myContinued(x exchange, awaits myAwaited) (f facts, ok bool) {
	if len(x.request) < myHeader || x.request[3] != awaits.number {
		return f, false
	}
	q := &myRequest{command: awaits.name}
	n, _, _, _ := myPacket(x.request)
	if myHeader+n > x.size {
		return f, false
	}
	if len(x.response) >= myHeader && !myAnswer(x.response, x.response[3], q) {
		return f, false
	}
	f.protocol, f.operation, f.mysql = protocolMySQL, awaits.name, q
	f.failure, f.code = myFailure(x.response)
	return f, true
}

// myAnswer reports whether a response is that of a server to the request, and notes
// what it asks for in turn. number: of its first packet.
func myAnswer(b []byte, number byte, q *myRequest) bool {
	if q.command == "SSLRequest" {
		return len(b) >= 2 && b[0] == 0x16 && b[1] == 3
	}
	if len(b) < myHeader || b[3] != number {
		return false
	}
	n, _, body, rest := myPacket(b)
	if len(body) == 0 {
		return n > 0 // some read the header alone
	}
	login := q.renewed && q.command != "COM_RESET_CONNECTION" || q.command == authSwitchResponse
	switch q.command {
	case "COM_STATISTICS":
		return isText(body)
	case "COM_STMT_FETCH": // rows
		return body[0] == 0 || body[0] >= 0xfe
	case "COM_FIELD_LIST":
		return body[0] >= 0xfe || len(body) >= 4 && string(body[:4]) == "\x03def"
	}
	switch body[0] {
	case 0x00: // OK, also of a statement that is prepared
		return n >= 7 && n < myOKLongest
	case 0xff: // ERR
		return n >= 3 && n < myERRLongest
	case 0xfe: // OK, the end of columns, or another way to authenticate
		if login && n > 1 {
			q.awaits = myAwaited{number + 1, authSwitchResponse}
		}
		return login || n >= 5
	case 0x01:
		if login { // more of an authentication; 3: it succeeds at once
			if len(body) > 1 && body[1] != 3 {
				q.awaits = myAwaited{number + 1, authSwitchResponse}
			}
			return true
		}
	case 0xfb: // send me a file
		q.awaits = myAwaited{number + 1, "LOCAL INFILE"}
		return n > 1
	}
	// columns: how many, perhaps whether they follow; then each in a packet
	size := 1
	if body[0] == 0xfc {
		size = 3
	}
	if n != size && n != size+1 || body[0] > 0xfc || login {
		return false
	}
	if len(rest) < myHeader {
		return true
	}
	_, next, column, _ := myPacket(rest)
	return next == number+1 && (n > size || len(column) < 4 || string(column[:4]) == "\x03def")
}

const authSwitchResponse = "AuthSwitchResponse"

// myFailure is the SQLSTATE of an error and its code, "" without one.
func myFailure(response []byte) (failure, code string) {
	for len(response) > myHeader {
		_, _, body, rest := myPacket(response)
		if body[0] != 0xff {
			return "", ""
		}
		if len(body) < 3 {
			return otherFailure, ""
		}
		n := int(binary.LittleEndian.Uint16(body[1:]))
		if n == myProgress {
			response = rest
			continue
		}
		if len(body) >= 9 && body[3] == '#' && isAlphanumeric(body[4:9]) {
			failure = string(body[4:9])
		}
		return cmp.Or(failure, otherFailure), strconv.Itoa(n)
	}
	return "", ""
}

// sessionMySQL completes a request by what those before it on its connection prepared,
// in the way of session. The server numbers statements, and never uses a number again.
func (b *Builder) sessionMySQL(o *open, x exchange, f *facts) {
	q := f.mysql
	key := func(id uint32) preparedKey { return preparedKey{o.connection, "\x00" + strconv.Itoa(int(id))} }
	if q.executes && !(q.id == myIDLast && q.statement.summary != "") {
		if s, ok := b.statements[key(q.id)]; ok {
			f.tell(s)
		}
	}
	for _, id := range q.closed {
		delete(b.statements, key(id))
	}
	if q.renewed {
		o.connection = o.id
	}
	// PREPARE_OK: 0, the number
	if q.prepares && len(x.response) >= myHeader+5 && x.response[myHeader] == 0 && f.failure == "" {
		b.prepared(key(binary.LittleEndian.Uint32(x.response[myHeader+1:])), q.statement)
	}
	b.follow(o, q.awaits)
}
