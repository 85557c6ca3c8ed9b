package otlpgrpc

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/tare-trace/tare/otel/lean/internal/otlpwire"
)

// message is what the codec encodes: bytes that are protobuf already.
type message struct {
	data []byte
	// transient: gRPC reads data within SendMsg only, as it does when it
	// compresses. Else it keeps the bytes until its writer goroutine has written
	// them, which may be after the call: when the context ends, or the server
	// answers early.
	transient bool
}

// response is what it decodes.
type response struct {
	spans   int // of the request
	partial otlpwire.PartialSuccess
	err     error // of decoding: the spans arrived all the same
}

// codec passes bytes through. Its name is that of protobuf's, since that is
// what goes over the wire (content-type application/grpc+proto).
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("otlpgrpc: cannot encode %T", v)
	}
	if m.transient {
		return mem.BufferSlice{mem.SliceBuffer(m.data)}, nil
	}
	return mem.BufferSlice{mem.Copy(m.data, copies)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*response)
	if !ok {
		return fmt.Errorf("otlpgrpc: cannot decode %T", v)
	}
	if data.Len() > 0 { // full success has no bytes
		r.partial, r.err = otlpwire.DecodeResponse(data.Materialize(), r.spans)
	}
	return nil
}

// copies holds the buffers of requests. gRPC's own pool has one class between
// 32 KiB and 1 MiB, and it zeroes what it lends: 1 MiB for a batch of 175 kB.
var copies mem.BufferPool = &copyPool{}

type copyPool struct{ pool sync.Pool }

// maxPooled bounds the buffers that are kept, in bytes.
const maxPooled = 4 << 20

func (p *copyPool) Get(length int) *[]byte {
	buffer, ok := p.pool.Get().(*[]byte)
	if !ok || cap(*buffer) < length {
		made := make([]byte, length, length+length/4) // batches are of similar size
		return &made
	}
	*buffer = (*buffer)[:length]
	return buffer
}

func (p *copyPool) Put(buffer *[]byte) {
	if cap(*buffer) <= maxPooled {
		p.pool.Put(buffer)
	}
}
