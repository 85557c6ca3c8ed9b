package spans

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/tare-trace/tare/bpf"
)

const (
	// Longer messages are not recognised. In all others the length begins with a zero,
	// where a text or the second byte of another protocol's length rarely has one.
	pgMessageMost = 1 << 24 // bytes
	pgStartupMost = 10000   // bytes; MAX_STARTUP_PACKET_LENGTH of the server
	pgHeader      = 5       // bytes: a letter and the length, which counts itself
)

// pgRequest is what the beginning of a client's messages tells.
// https://www.postgresql.org/docs/current/protocol-message-formats.html
type pgRequest struct {
	statements []pgStatement
	closed     []string // names of prepared statements
	message    string   // of a request without statements: what it is
	executes   bool     // not only prepares
	cut        bool     // the payload may end within a message
	size       int      // bytes of the messages that were seen, with what was cut off
	seen       int      // of the same, what was not cut off
}

// pgStatement is a statement that a request brings, or names because it was
// prepared before.
type pgStatement struct {
	statement
	name     string
	brought  bool
	prepared bool
}

// identifyPostgres reads messages of protocol 3. Everything that is there must be
// well-formed, and the response its server's: many protocols begin with a length.
func identifyPostgres(x exchange) (f facts, ok bool) {
	request, response := x.request, x.response
	f.protocol = protocolPostgres
	answered := pgAnswer(response)
	if name := pgOpening(request, response); name != "" {
		f.operation = name
		f.unanswered = name == "CancelRequest"
		f.failure = pgFailure(response)
		return f, true
	}
	q := &pgRequest{cut: len(request) >= bpf.TarePayloadStart}
	strong, ok := q.read(request)
	if !ok || !answered && (len(response) > 0 || !strong) {
		return facts{}, false
	}
	f.postgres, f.operation = q, q.message
	f.unanswered = q.message == "Terminate"
	f.failure = pgFailure(response)
	return f, true
}

// pgOpening names a connection's first message, which has no letter, "" for any
// other. Of its content nothing is kept.
func pgOpening(request, response []byte) string {
	if len(request) < 8 {
		return ""
	}
	n := int(binary.BigEndian.Uint32(request))
	cut := n > len(request) && len(request) >= bpf.TarePayloadStart
	if n > pgStartupMost || n != len(request) && !cut {
		return ""
	}
	secure := len(response) == 0 || strings.IndexByte("SGNE", response[0]) >= 0
	switch code := binary.BigEndian.Uint32(request[4:]); {
	case code == 1234<<16|5679 && n == 8 && secure:
		return "SSLRequest"
	case code == 1234<<16|5680 && n == 8 && secure:
		return "GSSENCRequest"
	case code == 1234<<16|5678 && n >= 16 && len(response) == 0:
		return "CancelRequest"
	case code>>16 == 3 && pgParameters(request[8:], cut) && (len(response) == 0 || pgAnswer(response)):
		return "StartupMessage"
	}
	return ""
}

// pgParameters are names with values, up to an empty name. The user is among them.
func pgParameters(b []byte, cut bool) (user bool) {
	for {
		name, rest, found := pgString(b)
		if !found {
			return user && cut
		}
		if len(name) == 0 {
			return user && len(rest) == 0
		}
		user = user || string(name) == "user"
		if _, b, found = pgString(rest); !found {
			return user && cut
		}
	}
}

// read takes the messages. strong: PostgreSQL can be told by them alone.
func (q *pgRequest) read(b []byte) (strong, ok bool) {
	for len(b) >= pgHeader {
		kind, n := b[0], int(binary.BigEndian.Uint32(b[1:]))-4
		if n < 0 || n+4 >= pgMessageMost {
			return false, false
		}
		b = b[pgHeader:]
		q.size += pgHeader + n
		whole := n <= len(b)
		body := b[:min(n, len(b))]
		b = b[len(body):]
		q.seen += pgHeader + len(body)
		if !whole && !q.cut || !q.take(kind, body, whole) {
			return false, false
		}
		strong = strong || strings.IndexByte("QPBEFDCX", kind) >= 0
	}
	return strong, q.size > 0 && (len(b) == 0 || q.cut)
}

// take reads one message; whole: nothing of it was cut off.
func (q *pgRequest) take(kind byte, body []byte, whole bool) bool {
	switch kind {
	case 'Q': // Query
		q.executes = true
		text, rest, found := pgString(body)
		q.statements = append(q.statements, pgStatement{statement: readSQL(text, !found, false), brought: true})
		return found == whole && len(rest) == 0 && isText(text)
	case 'P': // Parse
		name, rest, found, ok := pgName(body, whole)
		if !found {
			return ok
		}
		text, types, found := pgString(rest)
		q.statements = append(q.statements, pgStatement{statement: readSQL(text, !found, true), name: name, brought: true, prepared: true})
		return isText(text) && (!whole || found && len(types) >= 2 && len(types) == 2+4*pgShort(types))
	case 'B': // Bind
		q.executes = true
		_, rest, _, ok := pgName(body, whole)
		name, rest, found, also := pgName(rest, whole)
		if !found {
			q.is("EXECUTE")
			return ok && also
		}
		if !slices.ContainsFunc(q.statements, func(s pgStatement) bool { return s.prepared && s.name == name }) {
			q.statements = append(q.statements, pgStatement{name: name})
		}
		rest, sound := pgArguments(rest, whole)
		return ok && sound && (!whole || len(rest) >= 2 && len(rest) == 2+2*pgShort(rest))
	case 'E': // Execute
		q.executes = true
		q.message = "EXECUTE"
		_, rest, _, ok := pgName(body, whole)
		return ok && (!whole || len(rest) == 4)
	case 'D', 'C': // Describe, Close
		q.is(map[byte]string{'D': "Describe", 'C': "Close"}[kind])
		if len(body) == 0 {
			return !whole
		}
		name, rest, found, ok := pgName(body[1:], whole)
		if kind == 'C' && found && body[0] == 'S' {
			q.closed = append(q.closed, name)
		}
		return ok && len(rest) == 0 && (body[0] == 'S' || body[0] == 'P')
	case 'F': // FunctionCall
		q.is("FunctionCall")
		if len(body) < 4 {
			return !whole
		}
		rest, ok := pgArguments(body[4:], whole)
		return ok && (!whole || len(rest) == 2)
	case 'S', 'H', 'c', 'X':
		q.is(map[byte]string{'S': "Sync", 'H': "Flush", 'c': "COPY", 'X': "Terminate"}[kind])
		return whole && len(body) == 0
	case 'd', 'f': // CopyData, CopyFail
		q.is("COPY")
		return true
	case 'p': // a password, or another part of an authentication
		q.is("Authentication")
		return true
	}
	return false
}

func (q *pgRequest) is(message string) {
	if q.message == "" {
		q.message = message
	}
}

// pgString takes a text and its zero; without one, all is text.
func pgString(b []byte) (text, rest []byte, found bool) {
	return bytes.Cut(b, []byte{0})
}

// pgName takes a name, which must be printable. If the record cuts it off, it is
// not found.
func pgName(b []byte, whole bool) (name string, rest []byte, found, ok bool) {
	text, rest, found := pgString(b)
	if slices.ContainsFunc(text, func(c byte) bool { return c < 0x20 || c == 0x7f }) {
		return "", nil, false, false
	}
	return printable(text), rest, found, found || !whole
}

// isText reports whether there are no control characters but those that separate lines.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < 0x20 && !isSQLSpace(c) || c == 0x7f })
}

func pgShort(b []byte) int { return int(binary.BigEndian.Uint16(b)) }

// pgArguments takes formats, which are 0 or 1, and values.
func pgArguments(b []byte, whole bool) (rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, !whole
	}
	n := pgShort(b)
	for b = b[2:]; n > 0; n, b = n-1, b[2:] {
		if len(b) < 2 {
			return nil, !whole
		}
		if pgShort(b) > 1 {
			return nil, false
		}
	}
	if len(b) < 2 {
		return nil, !whole
	}
	n = pgShort(b)
	for b = b[2:]; n > 0; n-- {
		if len(b) < 4 {
			return nil, !whole
		}
		size := int(int32(binary.BigEndian.Uint32(b))) //nolint:gosec // -1 is NULL
		b = b[4:]
		switch {
		case size < -1:
			return nil, false
		case size > len(b):
			return nil, !whole
		case size > 0:
			b = b[size:]
		}
	}
	return b, true
}

// pgAnswers are the messages of a server; their bodies may be cut off.
func pgAnswers(b []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for len(b) > 0 {
			kind, body := b[0], []byte(nil)
			if len(b) < pgHeader {
				yield(kind, nil)
				return
			}
			n := int(binary.BigEndian.Uint32(b[1:])) - 4
			if n < 0 || n+4 >= pgMessageMost {
				return
			}
			b = b[pgHeader:]
			body = b[:min(n, len(b))]
			b = b[len(body):]
			if !yield(kind, body) {
				return
			}
		}
	}
}

// pgAnswer reports whether a response begins as a server's.
func pgAnswer(response []byte) bool {
	for kind := range pgAnswers(response) {
		return strings.IndexByte("123ACDEGHIKNRSTVWZcdnstv", kind) >= 0
	}
	return false
}

// pgFailure is the SQLSTATE of an error, "_OTHER" if it is cut off, "" without one.
func pgFailure(response []byte) string {
	for kind, body := range pgAnswers(response) {
		if kind != 'E' {
			continue
		}
		for len(body) > 1 {
			field, rest, _ := pgString(body[1:])
			if body[0] == 'C' && len(field) == 5 && isAlphanumeric(field) {
				return string(field)
			}
			body = rest
		}
		return otherFailure
	}
	return ""
}

func isAlphanumeric(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return !isDigit(c) && (c < 'A' || c > 'Z') })
}

// session completes what a request of PostgreSQL tells by what those before it on its
// connection prepared. A connection is known from one span to the next: START names
// the span that it follows. Where one is missing, because it was not sampled, or
// where a request may have held more than was seen, nothing is known any more.
func (b *Builder) session(o *open, f *facts) {
	q := f.postgres
	size := int(o.sent) //nolint:gosec // of one request
	if o.role == bpf.TareRoleTARE_SERVER {
		size = int(o.received) //nolint:gosec // likewise
	}
	for i := range q.statements {
		if s := &q.statements[i]; !s.brought {
			known, ok := b.statements[preparedKey{o.connection, s.name}]
			if !ok {
				known = statement{text: strings.TrimSpace("EXECUTE " + s.name), operation: "EXECUTE", summary: "EXECUTE"}
			}
			s.statement = known
		}
	}
	// Behind a text that is cut off, Describe and Sync have room, and no other statement.
	prepares := false
	if n := len(q.statements); n > 0 && !q.executes {
		prepares = size-q.size <= pgHeader+2+len(q.statements[n-1].name)+pgHeader
	}
	q.tell(f, prepares)
	gone := strings.Contains(f.summary, "DEALLOCATE") || strings.Contains(f.summary, "DISCARD")
	if !o.responded || f.failure != "" || size > q.seen && !prepares || gone {
		o.connection = o.id
	} else {
		b.remember(o.connection, q)
	}
	b.follow(o, myAwaited{})
}

func (b *Builder) remember(connection uint64, q *pgRequest) {
	for _, name := range q.closed {
		delete(b.statements, preparedKey{connection, name})
	}
	for _, s := range q.statements {
		if !s.prepared {
			continue
		}
		b.prepared(preparedKey{connection, s.name}, s.statement)
	}
}

// tell puts the statements together: a client may send several at once, as BEGIN
// before its first.
func (q *pgRequest) tell(f *facts, prepares bool) {
	if len(q.statements) == 0 {
		return
	}
	var texts, summaries []string
	for _, s := range q.statements {
		if n := len(texts); n > 0 && texts[n-1] == s.text {
			continue
		}
		texts, summaries = append(texts, s.text), append(summaries, s.summary)
	}
	f.target = strings.Join(texts, "; ")
	f.summary = strings.TrimSpace(strings.Join(summaries, " "))
	f.operation = ""
	if len(texts) == 1 {
		f.operation, f.collection = q.statements[0].operation, q.statements[0].collection
	}
	if prepares {
		f.operation, f.summary = "PREPARE", strings.TrimSpace("PREPARE "+f.summary)
	}
}
