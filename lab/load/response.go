package load

import (
	"bytes"
	"errors"
	"io"
)

// errEarlyEOF: the connection closed before the first byte of an answer.
var errEarlyEOF = errors.New("connection closed before the response")

// responseReader reads answers from one connection, one after the other. Where
// the source has nothing yet, it returns the source's errAgain, and the following
// call goes on from there.
type responseReader struct {
	src  io.Reader
	buf  []byte
	r, w int    // buf[r:w] was received and not yet consumed
	full bool   // the last read filled the buffer: a greater one would have saved a read
	body []byte // the body, if keep is set and it came in pieces
	keep bool   // somebody wants to see the body

	at      part
	h       head
	left    int64 // of the body, or of its chunk
	interim bool  // one was skipped
}

// part of an answer.
type part uint8

const (
	inHead part = iota
	inBody
	inRest // up to the end of the connection
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
)

// Sizes of the buffer: enough for most answers, and for long ones.
const (
	minBuffer = 4 << 10
	maxBuffer = 64 << 10
)

func newResponseReader(keep bool) *responseReader {
	return &responseReader{buf: make([]byte, minBuffer), keep: keep}
}

// reset begins with a new connection.
func (r *responseReader) reset(src io.Reader) {
	r.src, r.r, r.w, r.at, r.interim = src, 0, 0, inHead, false
}

// next reads one whole answer; interim ones (1xx) are skipped. The body is
// nil unless it was asked for, and valid until the following call. After an
// error other than errAgain, reset comes first.
func (r *responseReader) next() (head, []byte, error) {
	if r.at == inHead {
		if h, err := r.head(); err != nil {
			return h, nil, err
		}
		if n := r.left; r.at == inBody && int64(r.w-r.r) >= n { // all of it is here: no copy
			b := r.buf[r.r : r.r+int(n)]
			r.r += int(n)
			r.done()
			return r.h, b, nil
		}
	}
	for r.at != inHead {
		if err := r.step(); err != nil {
			return r.h, nil, err
		}
	}
	return r.h, r.body, nil
}

func (r *responseReader) done() { r.at, r.interim = inHead, false }

// head reads up to the body of the final answer. The head that it returns is
// for errors only.
func (r *responseReader) head() (head, error) {
	for {
		if r.w > r.r {
			h, n, err := parseHead(r.buf[r.r:r.w])
			if err != nil {
				return h, err
			}
			r.r += n
			switch {
			case h.status == 101:
				return h, errMalformed // an upgrade that was not asked for
			case h.status >= 200:
				r.begin(h)
				return h, nil
			case n > 0:
				r.interim = true
				continue
			}
		}
		if err := r.more(); err != nil {
			if errors.Is(err, io.EOF) && !r.interim {
				err = errEarlyEOF
			}
			return head{}, unexpected(err)
		}
	}
}

// begin decides how the body ends: RFC 9112, 6.3.
func (r *responseReader) begin(h head) {
	r.h, r.body, r.left = h, r.body[:0], h.length
	switch {
	case h.noBody():
		r.at, r.left = inBody, 0
	case h.chunked:
		r.at = inChunkSize
	case h.length < 0:
		r.at = inRest
	default:
		r.at = inBody
	}
}

// step goes on by one part of the body.
func (r *responseReader) step() error {
	switch r.at {
	case inBody:
		if err := r.take(); err != nil {
			return err
		}
		r.done()
	case inRest:
		r.left = int64(r.w - r.r)
		if err := r.take(); err != nil {
			return err
		}
		if err := r.more(); errors.Is(err, io.EOF) {
			r.done()
		} else if err != nil {
			return err
		}
	case inChunkSize:
		line, err := r.line()
		if err != nil {
			return err
		}
		if r.left, err = chunkSize(line); err != nil {
			return err
		}
		r.at = inChunk
		if r.left == 0 {
			r.at = inTrailer
		}
	case inChunk:
		if err := r.take(); err != nil {
			return err
		}
		r.at = inChunkEnd
	case inChunkEnd:
		if line, err := r.line(); err != nil || len(line) != 0 {
			return errOr(err, errMalformed)
		}
		r.at = inChunkSize
	case inTrailer: // fields, then an empty line
		line, err := r.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			r.done()
		}
	}
	return nil
}

// more reads once. EOF within something that was begun is unexpected.
func (r *responseReader) more() error {
	if r.r == r.w {
		r.r, r.w = 0, 0
		if r.full && len(r.buf) < maxBuffer {
			r.buf = make([]byte, 2*len(r.buf))
		}
	} else if r.w == len(r.buf) {
		if r.r > 0 {
			r.w = copy(r.buf, r.buf[r.r:r.w])
			r.r = 0
		} else {
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.w += n
	if n > 0 {
		r.full = r.w == len(r.buf)
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	if errors.Is(err, io.EOF) && r.w > r.r {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// take consumes what is left, and appends it to body if it is wanted.
func (r *responseReader) take() error {
	for {
		part := r.buf[r.r:r.w]
		if int64(len(part)) > r.left {
			part = part[:r.left]
		}
		if r.keep {
			r.body = append(r.body, part...)
		}
		r.r += len(part)
		r.left -= int64(len(part))
		if r.left == 0 {
			return nil
		}
		if err := r.more(); err != nil {
			return unexpected(err)
		}
	}
}

// line consumes one line and returns it without its CR LF.
func (r *responseReader) line() ([]byte, error) {
	for {
		b := r.buf[r.r:r.w]
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			if i == 0 || b[i-1] != '\r' {
				return nil, errMalformed
			}
			r.r += i + 1
			return b[:i-1], nil
		}
		if len(b) > maxHead {
			return nil, errHeadSize
		}
		if err := r.more(); err != nil {
			return nil, unexpected(err)
		}
	}
}

// chunkSize reads hexadecimal digits up to the end or an extension.
func chunkSize(line []byte) (int64, error) {
	if i := bytes.IndexByte(line, ';'); i >= 0 {
		line = line[:i]
	}
	line = bytes.TrimRight(line, " \t")
	if len(line) == 0 || len(line) > 15 {
		return 0, errMalformed
	}
	var n int64
	for _, c := range line {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, errMalformed
		}
		n = n<<4 | int64(c)
	}
	return n, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
