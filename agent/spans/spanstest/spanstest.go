// Package spanstest has records as the kernel side writes them, for tests of
// what reads them, here and in a collector.
package spanstest

import (
	"slices"
	"unsafe"

	"github.com/tare-trace/tare/bpf"
)

// Service is the index that all records name.
const Service = 1

// Requests are the records of requests, in order, in which everything happens
// that can become of one: answered in pieces, failed, reset, pipelined, ended by
// the next one, never answered. Seven spans of five traces come of them, with
// no END for the last two.
func Requests() [][]byte {
	var r records
	root := func(trace uint64) func(*bpf.Start) {
		return func(s *bpf.Start) {
			s.TraceLo, s.Threshold, s.Flags = trace, 8, uint8(bpf.TareStartFlagsTARE_F_ROOT)
		}
	}
	child := func(trace, parent uint64) func(*bpf.Start) {
		return func(s *bpf.Start) { s.TraceLo, s.ParentId = trace, parent }
	}
	const (
		server, client = bpf.TareRoleTARE_SERVER, bpf.TareRoleTARE_CLIENT
		sent, received = bpf.TareDirectionTARE_SENT, bpf.TareDirectionTARE_RECEIVED
		next, closed   = bpf.TareEndReasonTARE_END_NEXT, bpf.TareEndReasonTARE_END_CLOSED
	)
	r.start(1, server, 1000, "G", root(1)) // Go reads one byte first
	r.data(1, received, 1100, "ET /a HTTP/1.1\r\n")
	r.start(2, client, 1200, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", child(1, 1))
	r.data(2, received, 1300, "-ERR wrong\r\n")
	r.end(2, next, 0)
	r.data(1, sent, 1400, "HTTP/1.1 500 X")
	r.data(1, sent, 1500, "more")
	r.end(1, next, 0)

	r.start(3, client, 2000, "GET /reset HTTP/1.1\r\n", child(2, 0xfedcba9876543210))
	r.end(3, closed, 104) // ECONNRESET

	r.start(4, server, 3000, "GET /first HTTP/1.1\r\n", root(3))
	r.start(7, client, 3100, "get k\r\n", child(3, 4))
	r.end(4, bpf.TareEndReasonTARE_END_PIPELINED, 0)
	r.data(7, received, 3200, "END\r\n")

	r.start(5, server, 4000, "GET /ends HTTP/1.1\r\n", root(4))
	r.data(5, sent, 4100, "HTTP/1.1 200 OK")
	r.start(6, server, 4200, "GET /unanswered HTTP/1.1\r\n", func(s *bpf.Start) {
		root(5)(s)
		s.Ends = 5
	})
	return r
}

type records [][]byte

func raw[T any](v T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))) //nolint:gosec // as the kernel wrote it
}

func (r *records) start(id uint64, role bpf.TareRole, ts uint64, payload string, change func(*bpf.Start)) {
	s := bpf.Start{
		Type: uint8(bpf.TareRecordTypeTARE_START), Role: uint8(role), Family: 2, Service: Service, Ts: ts, SpanId: id,
		TraceHi: 1, LocalPort: 8080, RemotePort: 40000, Bytes: uint32(len(payload)), //nolint:gosec // short
		Local: [16]byte{127, 0, 0, 1}, Remote: [16]byte{10, 0, 0, 9},
	}
	s.PayloadLen = uint16(copy(s.Payload[:], payload)) //nolint:gosec // short
	change(&s)
	*r = append(*r, raw(s))
}

func (r *records) data(id uint64, direction bpf.TareDirection, ts uint64, payload string) {
	d := bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA), Direction: uint8(direction), Ts: ts, SpanId: id, Bytes: uint32(len(payload))} //nolint:gosec // short
	d.PayloadLen = uint8(copy(d.Payload[:], payload))                                                                                     //nolint:gosec // short
	*r = append(*r, raw(d))
}

func (r *records) end(id uint64, reason bpf.TareEndReason, errno uint16) {
	*r = append(*r, raw(bpf.End{Type: uint8(bpf.TareRecordTypeTARE_END), Reason: uint8(reason), Error: errno, SpanId: id}))
}
