package spans_test

import (
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/tare-trace/tare/agent/spans"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp"
)

// BenchmarkRequest is what a request of the chain nginx costs from its records to
// encoded spans: a server and a client span of the proxy, a server span behind it.
func BenchmarkRequest(b *testing.B) {
	proxy, backend := &span.Resource{Service: "proxy"}, &span.Resource{Service: "backend"}
	var (
		buf  []byte
		made int
	)
	builder := spans.New(spans.Config{
		Resource: func(i uint16) *span.Resource {
			if i == 1 {
				return proxy
			}
			return backend
		},
		Emit: func(list []*span.Span) {
			buf = buf[:0]
			for _, s := range list {
				buf = otlp.AppendSpan(buf, s)
			}
			made += len(list)
		},
		TraceState: func(uint64) string { return "ot=th:0" },
		Lost:       func(string, uint64) { b.Fatal("lost") },
		Unfinished: func(string) {},
		Quiet:      time.Hour,
		Batch:      32, // as the agent
	})
	const request = " HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench\r\n\r\n"
	const response = "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 3\r\n\r\nok\n"
	start := func(role bpf.TareRole, service uint16, port uint16, flags uint8) bpf.Start {
		return bpf.Start{Type: uint8(bpf.TareRecordTypeTARE_START), Role: uint8(role), Family: 2, Service: service, Flags: flags,
			LocalPort: 8080, RemotePort: port, Local: [16]byte{127, 0, 0, 1}, Remote: [16]byte{127, 0, 0, 1}, Bytes: 60}
	}
	records := []bpf.Start{
		start(bpf.TareRoleTARE_SERVER, 1, 40000, uint8(bpf.TareStartFlagsTARE_F_ROOT)),
		start(bpf.TareRoleTARE_CLIENT, 1, 8081, 0),
		start(bpf.TareRoleTARE_SERVER, 2, 40001, uint8(bpf.TareStartFlagsTARE_F_TAG)),
	}
	data := []bpf.Data{
		{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(bpf.TareDirectionTARE_SENT), Flags: 1, Bytes: 60},
		{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(bpf.TareDirectionTARE_RECEIVED), Flags: 3, Bytes: 60},
		{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(bpf.TareDirectionTARE_SENT), Flags: 1, Bytes: 60},
	}
	for i := range data {
		data[i].PayloadLen = uint8(copy(data[i].Payload[:], response))
	}
	ids, before, n := uint64(0), [3]uint64{}, uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		for i := range records {
			s := &records[i]
			text := strconv.AppendUint(append(s.Payload[:0], "GET /item/"...), n%100000, 10)
			s.PayloadLen = uint16(copy(s.Payload[len(text):], request) + len(text))
			ids++
			s.SpanId, s.ParentId, s.TraceHi, s.TraceLo, s.Ends, s.Ts = ids, ids-1, n, n, before[i], n*1000
			before[i] = ids
			data[i].SpanId, data[i].Ts = ids, n*1000+500
			builder.Handle(bytesOf(s))
		}
		for i := range data {
			builder.Handle(bytesOf(&data[2-i]))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(made), "ns/span")
}

func bytesOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
