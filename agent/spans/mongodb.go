package spans

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

const (
	mongoHeader     = 16              // bytes: length, id, id of the request that is answered, code
	mongoLongest    = 48<<20 + 16<<10 // bytes; maxMessageSizeBytes, and some more
	mongoReply      = 1               // up to MongoDB 5.0, likewise
	mongoQuery      = 2004
	mongoCompressed = 2012
	mongoMsg        = 2013

	mongoChecksum   = 1 << 0
	mongoMoreToCome = 1 << 1
)

// mongoCollections are the commands whose value is a collection. That of others may be
// a user's name.
var mongoCollections = words(`aggregate collMod collStats compact convertToCapped count create createIndexes delete distinct
	drop dropIndexes find findAndModify findandmodify insert killCursors listIndexes mapReduce reIndex update validate`)

// identifyMongoDB reads the first document of an OP_MSG, or of the OP_QUERY with which
// drivers begin. The response has to name the request that it answers.
// https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
func identifyMongoDB(x exchange) (f facts, ok bool) {
	b := x.request
	if len(b) < mongoHeader {
		return f, false
	}
	n, code := mongoInt(b), mongoInt(b[12:])
	if n < mongoHeader+5 || n > mongoLongest || n > x.size || mongoInt(b[8:]) != 0 {
		return f, false
	}
	if len(x.response) > 0 && !mongoAnswer(x.response, b[4:8]) {
		return f, false
	}
	f.protocol = protocolMongoDB
	b = b[mongoHeader:min(n, len(b))]
	whole := false
	switch code {
	case mongoMsg:
		whole, ok = f.mongoSections(b)
	case mongoQuery:
		whole, ok = f.mongoCommand(b)
	case mongoCompressed: // code, size before, compressor
		ok = len(b) < 9 || b[8] <= 3 && (mongoInt(b) == mongoMsg || mongoInt(b) == mongoQuery)
	}
	// What was not seen, as where the header was read alone, is told by the response.
	if !ok || !whole && len(x.response) == 0 {
		return facts{}, false
	}
	f.failure = mongoFailure(x.response)
	return f, true
}

func mongoInt(b []byte) int { return int(int32(binary.LittleEndian.Uint32(b))) } //nolint:gosec // signed on the wire

// mongoSections reads an OP_MSG. whole: there is a command.
func (f *facts) mongoSections(b []byte) (whole, ok bool) {
	if len(b) < 5 {
		return false, true
	}
	flags := binary.LittleEndian.Uint32(b)
	if flags&0xffff&^(mongoChecksum|mongoMoreToCome) != 0 { // bits that a reader has to know
		return false, false
	}
	f.unanswered = flags&mongoMoreToCome != 0
	kind, b := b[4], b[5:]
	for kind == 1 { // documents before the command
		if len(b) < 4 || mongoInt(b) < 5 || mongoInt(b) >= len(b) {
			return false, len(b) < 4 || mongoInt(b) >= 5
		}
		n := mongoInt(b)
		kind, b = b[n], b[n+1:]
	}
	if kind != 0 {
		return false, false
	}
	return f.mongoDocument(b)
}

// mongoCommand reads an OP_QUERY of a database's collection "$cmd".
func (f *facts) mongoCommand(b []byte) (whole, ok bool) {
	if len(b) < 4 {
		return false, true
	}
	name, rest, found := bytes.Cut(b[4:], []byte{0})
	db, command := bytes.CutSuffix(name, []byte(".$cmd"))
	if !found || !command || len(rest) < 8 {
		return false, !found
	}
	f.namespace = printable(db)
	return f.mongoDocument(rest[8:])
}

// mongoDocument reads a command: its name is that of the first element.
func (f *facts) mongoDocument(b []byte) (whole, ok bool) {
	if len(b) < 5 {
		return false, true
	}
	if mongoInt(b) < 5 {
		return false, false
	}
	b = b[4:]
	for first := true; ; first = false {
		kind, name, value, rest, found := bsonElement(b)
		if first {
			if name == "" {
				return false, len(b) < 48 && !bytes.Contains(b, []byte{0})
			}
			if !isWord([]byte(name)) {
				return false, false
			}
			f.operation = name
		}
		switch {
		case !found:
			return f.operation != "", true
		case kind != 0x02: // string
		case first && mongoCollections[name], f.operation == "getMore" && name == "collection":
			f.collection = printable(value)
		case name == "$db":
			f.namespace = printable(value)
		}
		b = rest
	}
}

// bsonElement takes an element of a document: found if its value was seen. A string
// comes without its length and its end. https://bsonspec.org/spec.html
func bsonElement(b []byte) (kind byte, name string, value, rest []byte, found bool) {
	if len(b) < 2 {
		return 0, "", nil, nil, false
	}
	kind = b[0]
	text, b, found := bytes.Cut(b[1:], []byte{0})
	if !found {
		return kind, "", nil, nil, false
	}
	name = printable(text)
	n := 0
	switch kind {
	case 0x01, 0x09, 0x11, 0x12: // double, time, timestamp, int64
		n = 8
	case 0x02, 0x03, 0x04, 0x05: // string, document, array, bytes
		if len(b) < 4 {
			return kind, name, nil, nil, false
		}
		n = mongoInt(b)
		switch kind {
		case 0x02:
			n += 4
		case 0x05:
			n += 5
		}
		if n < 5 {
			return kind, name, nil, nil, false
		}
	case 0x07: // id
		n = 12
	case 0x08: // boolean
		n = 1
	case 0x0a: // null
	case 0x10: // int32
		n = 4
	case 0x13: // decimal
		n = 16
	default:
		return kind, name, nil, nil, false
	}
	if n > len(b) {
		return kind, name, nil, nil, false
	}
	value = b[:n]
	if kind == 0x02 {
		value = value[4 : n-1]
	}
	return kind, name, value, b[n:], true
}

// mongoAnswer reports whether a response names the request with this id.
func mongoAnswer(b, id []byte) bool {
	if len(b) < mongoHeader || mongoInt(b) < mongoHeader || mongoInt(b) > mongoLongest {
		return false
	}
	code := mongoInt(b[12:])
	return bytes.Equal(b[8:12], id) && (code == mongoMsg || code == mongoReply || code == mongoCompressed)
}

// mongoFailure is the code of an error, "_OTHER" if it is not seen, "" without one.
func mongoFailure(b []byte) (failure string) {
	if len(b) < mongoHeader {
		return ""
	}
	switch mongoInt(b[12:]) {
	case mongoMsg:
		b = b[min(mongoHeader+9, len(b)):]
	case mongoReply:
		b = b[min(mongoHeader+24, len(b)):]
	default:
		return ""
	}
	for {
		kind, name, value, rest, found := bsonElement(b)
		switch {
		case name == "writeErrors":
			return otherFailure
		case !found:
			return failure
		case name == "ok" && len(bytes.Trim(value, "\x00")) == 0:
			failure = otherFailure
		case name == "code" && kind == 0x10 && failure != "":
			return strconv.Itoa(mongoInt(value))
		}
		b = rest
	}
}
