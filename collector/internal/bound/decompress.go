package bound

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip" // inflates in less CPU than the standard library's
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// ratio is how many times a body may grow by decompression, beyond the first MiB. gzip
// reaches 1032, telemetry that repeats itself a hundred.
const (
	ratio = 250
	grace = 1 << 20
	// window of zstd, as of its command line at the usual levels: the decoder allocates
	// what the header asks for, without a limit up to 512 MiB.
	window = 8 << 20
)

var (
	errRatio    = bad("ratio", "the compressed request grows more than %d times: send fewer spans at once, or less compressed", ratio)
	errEncoding = errors.New("unsupported Content-Encoding") //nolint:staticcheck // the name of a header
)

// counted counts the compressed bytes that were read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// limited is a decompressor whose output is held against its input.
type limited struct {
	io.Reader
	wire *counted
	n    int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	l.n += int64(n)
	if l.n > grace && l.n > ratio*l.wire.n {
		return 0, errRatio
	}
	return n, err
}

// decompress reads a body whose Content-Encoding is one of allowed.
func decompress(encoding string, allowed []string, body io.Reader, most int64) (io.Reader, error) {
	if !slices.Contains(allowed, encoding) {
		return nil, errEncoding
	}
	wire := &counted{Reader: body}
	inner, err := decoder(encoding, wire, most)
	if err != nil || encoding == "" {
		return inner, err
	}
	return &limited{Reader: inner, wire: wire}, nil
}

func decoder(encoding string, body io.Reader, most int64) (io.Reader, error) {
	switch encoding {
	case "":
		return body, nil
	case "gzip":
		return gzip.NewReader(body)
	case "zlib", "deflate":
		return zlib.NewReader(body)
	case "zstd":
		return newZstd(body)
	case "lz4":
		return lz4.NewReader(body), nil
	case "x-snappy-framed":
		return snappy.NewReader(body), nil
	case "snappy":
		return snappyOf(bufio.NewReader(body), most)
	default:
		return nil, errEncoding
	}
}

func newZstd(body io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// snappyOf reads both formats that senders call snappy, as the framework does: the framed
// one and blocks.
func snappyOf(body *bufio.Reader, most int64) (io.Reader, error) {
	const framed = "\xff\x06\x00\x00sNaPpY"
	head, err := body.Peek(len(framed))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(head) == framed {
		return snappy.NewReader(body), nil
	}
	if n, err := snappy.DecodedLen(head); err != nil {
		return nil, err
	} else if int64(n) > most {
		return nil, tooLong(most)
	}
	compressed, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, err
	}
	plain, err := snappy.Decode(nil, compressed)
	return bytes.NewReader(plain), err
}

func tooLong(most int64) *refusal {
	return bad("size", "the request is longer than %d bytes: send fewer spans at once, or raise the receiver's limit", most)
}
