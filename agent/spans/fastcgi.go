package spans

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// Records and how many bytes their heads have; FastCGI specification 8.
const (
	fcgiHeader = 8
	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiParams = 4
	fcgiStdout = 6
	fcgiStderr = 7
)

// identifyFastCGI reads the record that begins a request and the first of its
// parameters: of them only the method and the path are kept.
func identifyFastCGI(x exchange) (f facts, ok bool) {
	b := x.request
	if len(b) < 2*fcgiHeader || x.size < len(b) {
		return f, false
	}
	// version, type, id, length 8, no padding; role, flags, five reserved
	role := binary.BigEndian.Uint16(b[8:])
	if b[0] != 1 || b[1] != fcgiBegin || b[2] == 0 && b[3] == 0 || !bytes.Equal(b[4:7], []byte{0, 8, 0}) ||
		role < 1 || role > 3 || b[10] > 1 || !bytes.Equal(b[11:16], make([]byte, 5)) {
		return f, false
	}
	id := [2]byte(b[2:4])
	params, ok := fcgiContent(b[2*fcgiHeader:], id, fcgiParams)
	if !ok || len(x.response) > 0 && !fcgiAnswer(x.response, id) {
		return f, false
	}
	f.protocol = protocolFastCGI
	f.parameters(params)
	f.fastCGIStatus(x.response, id)
	return f, true
}

// fcgiContent joins what records of one type hold, up to the first of another.
func fcgiContent(b []byte, id [2]byte, kind byte) (content []byte, ok bool) {
	for len(b) >= fcgiHeader && b[1] == kind {
		n, padding := int(binary.BigEndian.Uint16(b[4:])), int(b[6])
		if b[0] != 1 || [2]byte(b[2:4]) != id {
			return nil, false
		}
		b = b[fcgiHeader:]
		content = append(content, b[:min(n, len(b))]...)
		b = b[min(n+padding, len(b)):]
	}
	return content, len(b) < fcgiHeader || b[0] == 1 && [2]byte(b[2:4]) == id
}

// fcgiLength takes a length, of one byte or of four.
func fcgiLength(b []byte) (n int, rest []byte, ok bool) {
	switch {
	case len(b) >= 1 && b[0] < 0x80:
		return int(b[0]), b[1:], true
	case len(b) >= 4:
		return int(binary.BigEndian.Uint32(b) & 0x7fffffff), b[4:], true
	}
	return 0, nil, false
}

func (f *facts) parameters(b []byte) {
	from := ""
	for {
		names, rest, ok := fcgiLength(b)
		values, rest, also := fcgiLength(rest)
		if !ok || !also || names > len(rest) {
			return
		}
		name := string(rest[:names])
		rest = rest[names:]
		value := rest[:min(values, len(rest))]
		switch name {
		case "REQUEST_METHOD":
			if values <= len(rest) {
				f.operation = methods[methodOf(value)]
			}
		case "REQUEST_URI", "DOCUMENT_URI", "SCRIPT_NAME": // better ones first; all without a query
			if len(value) > 0 && from != "REQUEST_URI" && (from == "" || name == "REQUEST_URI") {
				f.target, from = httpPath(value, nil), name
				f.cut = values > len(value) && !bytes.ContainsAny(value, queryBegins)
			}
		}
		if values > len(rest) {
			return
		}
		b = rest[values:]
	}
}

func fcgiAnswer(b []byte, id [2]byte) bool {
	if len(b) < fcgiHeader {
		return b[0] == 1 && len(b) < 4 // less than the id
	}
	return b[0] == 1 && (b[1] == fcgiEnd || b[1] == fcgiStdout || b[1] == fcgiStderr) && [2]byte(b[2:4]) == id
}

// fastCGIStatus reads "Status: 404", which servers may leave out where it is 200: then
// nothing is said, unless all headers were seen.
func (f *facts) fastCGIStatus(b []byte, id [2]byte) {
	for len(b) >= fcgiHeader && b[1] == fcgiStderr {
		b = b[min(fcgiHeader+int(binary.BigEndian.Uint16(b[4:]))+int(b[6]), len(b)):]
	}
	if len(b) >= fcgiHeader+5 && b[1] == fcgiEnd && b[12] != 0 { // overloaded, and the like
		f.failure = strconv.Itoa(int(b[12]))
		return
	}
	content, _ := fcgiContent(b, id, fcgiStdout)
	for {
		line, rest, found := bytes.Cut(content, []byte("\n"))
		if !found {
			break
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case len(line) == 0:
			if f.status == 0 {
				f.status = 200
			}
			return
		case bytes.EqualFold(name, []byte("Location")) && f.status == 0:
			f.status = 302
		case bytes.EqualFold(name, []byte("Status")) && len(value) >= 3:
			f.fcgiCode(value)
			return
		}
		content = rest
	}
	if f.status == 302 { // a Status may follow
		f.status = 0
	}
	if value, found := bytes.CutPrefix(content, []byte("Status: ")); found && len(value) >= 4 {
		f.fcgiCode(value)
	}
}

func (f *facts) fcgiCode(value []byte) {
	if n, err := strconv.Atoi(string(value[:3])); err == nil && n >= 100 && n <= 999 {
		f.status = n
	}
}
