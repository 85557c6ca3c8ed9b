package load

import (
	"bytes"
	"errors"
	"io"
)

// errEarlyEOF: the connection closed before the first byte of an answer.
var errEarlyEOF = errors.New("connection closed before the response")

// responseReader reads answers from one connection, one after the other.
type responseReader struct {
	src  io.Reader
	buf  []byte
	r, w int    // buf[r:w] was received and not yet consumed
	body []byte // the body, if keep is set and it came in pieces
	keep bool   // somebody wants to see the body
}

func newResponseReader(keep bool) *responseReader {
	return &responseReader{buf: make([]byte, 4<<10), keep: keep}
}

func (r *responseReader) reset(src io.Reader) {
	r.src, r.r, r.w = src, 0, 0
}

// next reads one whole answer; interim ones (1xx) are skipped. The body is
// nil unless it was asked for, and valid until the following call.
func (r *responseReader) next() (head, []byte, error) {
	for first := true; ; first = false {
		h, err := r.head()
		if err != nil {
			if first && errors.Is(err, io.EOF) {
				err = errEarlyEOF
			}
			return h, nil, err
		}
		if h.status >= 200 {
			body, err := r.readBody(h)
			return h, body, err
		}
		if h.status == 101 {
			return h, nil, errMalformed // an upgrade that was not asked for
		}
	}
}

func (r *responseReader) head() (head, error) {
	for {
		if r.w > r.r {
			h, n, err := parseHead(r.buf[r.r:r.w])
			if err != nil {
				return h, err
			}
			if n > 0 {
				r.r += n
				return h, nil
			}
		}
		if err := r.more(); err != nil {
			return head{}, err
		}
	}
}

// more reads once. EOF within something that was begun is unexpected.
func (r *responseReader) more() error {
	if r.r == r.w {
		r.r, r.w = 0, 0
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

func (r *responseReader) readBody(h head) ([]byte, error) {
	r.body = r.body[:0]
	switch {
	case h.noBody():
		return r.body, nil
	case h.chunked:
		return r.chunks()
	case h.length < 0:
		return r.untilEOF()
	case int64(r.w-r.r) >= h.length: // all of it is here: no copy
		b := r.buf[r.r : r.r+int(h.length)]
		r.r += int(h.length)
		return b, nil
	default:
		return r.body, r.take(h.length)
	}
}

// take consumes n bytes, and appends them to body if it is wanted.
func (r *responseReader) take(n int64) error {
	for {
		part := r.buf[r.r:r.w]
		if int64(len(part)) > n {
			part = part[:n]
		}
		if r.keep {
			r.body = append(r.body, part...)
		}
		r.r += len(part)
		n -= int64(len(part))
		if n == 0 {
			return nil
		}
		if err := r.more(); err != nil {
			return unexpected(err)
		}
	}
}

func (r *responseReader) untilEOF() ([]byte, error) {
	for {
		if err := r.take(int64(r.w - r.r)); err != nil {
			return nil, err
		}
		if err := r.more(); errors.Is(err, io.EOF) {
			return r.body, nil
		} else if err != nil {
			return nil, err
		}
	}
}

func (r *responseReader) chunks() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		size, err := chunkSize(line)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			break
		}
		if err := r.take(size); err != nil {
			return nil, err
		}
		if line, err := r.line(); err != nil || len(line) != 0 {
			return nil, errOr(err, errMalformed)
		}
	}
	for { // trailer fields, then an empty line
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			return r.body, nil
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
