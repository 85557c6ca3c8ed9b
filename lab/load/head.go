package load

import (
	"bytes"
	"errors"
)

// maxHead bounds the status line and the headers of an answer.
const maxHead = 64 << 10

var (
	errMalformed = errors.New("malformed response")
	errHeadSize  = errors.New("response head too large")
)

// head is what a closed-loop client must know of an answer.
type head struct {
	status  int
	length  int64 // of the body; -1: chunked, or until the connection closes
	chunked bool
	close   bool // the server will close the connection
	old     bool // HTTP/1.0
}

// noBody reports whether the answer ends with its head, whatever that says.
func (h head) noBody() bool {
	return h.status < 200 || h.status == 204 || h.status == 304
}

var headEnd = []byte("\r\n\r\n")

// parseHead reads the head at the start of b and returns its size, or 0 if b
// does not hold all of it yet. Lines must end with CR LF.
func parseHead(b []byte) (h head, size int, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		if len(b) > maxHead {
			return h, 0, errHeadSize
		}
		if n := min(len(b), len("HTTP/1.")); string(b[:n]) != "HTTP/1."[:n] {
			return h, 0, errMalformed
		}
		return h, 0, nil
	}
	if end > maxHead {
		return h, 0, errHeadSize
	}
	line, rest, _ := bytes.Cut(b[:end+2], headEnd[:2])
	h.length = -1
	if err := h.statusLine(line); err != nil {
		return head{}, 0, err
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, headEnd[:2])
		if err := h.field(line); err != nil {
			return head{}, 0, err
		}
	}
	if h.chunked {
		h.length = -1 // RFC 9112, 6.3: chunked overrides Content-Length
	}
	if h.length < 0 && !h.chunked && !h.noBody() {
		h.close = true
	}
	return h, end + len(headEnd), nil
}

func (h *head) statusLine(line []byte) error {
	// HTTP/1.x SP 3DIGIT [ SP reason ]
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' {
		return errMalformed
	}
	if line[7] != '0' && line[7] != '1' || len(line) > 12 && line[12] != ' ' {
		return errMalformed
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return errMalformed
		}
		h.status = 10*h.status + int(c-'0')
	}
	if h.status < 100 {
		return errMalformed
	}
	h.old = line[7] == '0'
	h.close = h.old
	return nil
}

var (
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
	connection       = []byte("connection")
	chunkedToken     = []byte("chunked")
	closeToken       = []byte("close")
	keepAliveToken   = []byte("keep-alive")
)

func (h *head) field(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return errMalformed
	}
	name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
	switch {
	case bytes.EqualFold(name, contentLength):
		n, err := decimal(value)
		if err != nil || h.length >= 0 && h.length != n {
			return errMalformed
		}
		h.length = n
	case bytes.EqualFold(name, transferEncoding):
		if h.old || !bytes.EqualFold(value, chunkedToken) {
			return errMalformed // unknown to HTTP/1.0, or a coding that was not asked for
		}
		h.chunked = true
	case bytes.EqualFold(name, connection):
		if bytes.EqualFold(value, closeToken) {
			h.close = true
		} else if bytes.EqualFold(value, keepAliveToken) {
			h.close = false
		}
	}
	return nil
}

func decimal(b []byte) (int64, error) {
	if len(b) == 0 || len(b) > 18 {
		return 0, errMalformed
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, errMalformed
		}
		n = 10*n + int64(c-'0')
	}
	return n, nil
}
