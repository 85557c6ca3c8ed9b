package otlphttp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"sync"
)

// payload is a request's body while its export lasts.
//
// A RoundTripper may still be reading a body after it has returned: when the
// server answers early, or the context ends during the write. The bytes belong
// to the caller, who reuses them. Waiting for the body's Close would make
// Export as slow as the slowest peer; so the readers look under a lock whether
// the export is still on, and after detach they find nothing.
type payload struct {
	length int

	mu   sync.Mutex
	data []byte // nil after detach
}

var errDetached = errors.New("the export is over")

func newPayload(data []byte) *payload { return &payload{length: len(data), data: data} }

func (p *payload) detach() {
	p.mu.Lock()
	p.data = nil
	p.mu.Unlock()
}

// reader reads from the start. It is not reused, as stragglers may hold it.
func (p *payload) reader() *payloadReader { return &payloadReader{payload: p} }

func (p *payload) newReader() (io.ReadCloser, error) { return p.reader(), nil }

type payloadReader struct {
	payload *payload
	at      int
}

func (r *payloadReader) Read(out []byte) (int, error) {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	if r.payload.data == nil {
		return 0, errDetached
	}
	n := copy(out, r.payload.data[r.at:])
	if r.at += n; n == 0 && len(out) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *payloadReader) Close() error { return nil }

// compressor is a gzip writer with its output, both reused: a writer's tables
// are 1 MB and more, its making costs more than compressing a small request.
type compressor struct {
	writer *gzip.Writer
	out    bytes.Buffer
}

var compressors = sync.Pool{New: func() any {
	writer, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant of the package
	}
	return &compressor{writer: writer}
}}

// compress returns data compressed; call release when it is sent.
func compress(data []byte) *compressor {
	z := compressors.Get().(*compressor)
	z.out.Reset()
	z.writer.Reset(&z.out)
	_, err := z.writer.Write(data)
	if err = errors.Join(err, z.writer.Close()); err != nil {
		panic(err) // a bytes.Buffer does not fail
	}
	return z
}

// maxPooled bounds the output buffer that is kept, in bytes.
const maxPooled = 4 << 20

func (z *compressor) release() {
	if z.out.Cap() <= maxPooled {
		compressors.Put(z)
	}
}
