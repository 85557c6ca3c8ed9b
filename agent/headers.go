package agent

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/bpf/hpack"
)

// headers are the correlation headers that the kernel side looks for, each with a
// number that stays: services have bits of these.
type headers struct {
	log *slog.Logger
	put func(table string, key, value any) error

	mu    sync.Mutex
	names []string
	table bpf.TareHeaderNames
	full  bool // was said
}

// bits are those of some headers; of new ones the kernel side is told first.
func (h *headers) bits(names []string) (bits uint32, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		i := h.number(name)
		if i < 0 {
			if i = len(h.names); i == len(h.table.At) {
				if !h.full {
					h.log.Warn("too many correlation headers; restart the agent to add another", "header", name)
				}
				h.full = true
				continue
			}
			h.table.At[i] = headerName(name)
			h.fix(name, uint8(i+1))
			h.table.N++
			if err := h.put("header_names", uint32(0), h.table); err != nil {
				h.table.N--
				return 0, fmt.Errorf("note the correlation header %s: %w", name, err)
			}
			h.names = append(h.names, name)
		}
		bits |= 1 << i
	}
	return bits, nil
}

// fix says which fields of HPACK's static table have a name. HTTP/2 splits cookies, and has another
// name for the host.
func (h *headers) fix(name string, value uint8) {
	if name == "cookie" || name == "host" {
		value |= bpf.HeaderSplit
	}
	for i := 1; i < hpack.Fixed; i++ {
		if f := hpack.FixedName(i); f == name || f == ":authority" && name == "host" {
			h.table.Fixed[i] = value
		}
	}
}

func (h *headers) number(name string) int {
	for i, have := range h.names {
		if have == name {
			return i
		}
	}
	return -1
}

// name is that of a number.
func (h *headers) name(number uint16) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if int(number) < len(h.names) {
		return h.names[number]
	}
	return ""
}

// headerName is a name as the kernel side compares it. Of headers with the ids of
// a trace and of a span only the trace's counts: who forwards them may be a span.
func headerName(name string) bpf.TareHeaderName {
	n := bpf.TareHeaderName{Len: uint8(len(name) + 1), Separator: '\n'}
	for i, c := range []byte(name + ":") {
		n.Word[i/8] |= uint64(c|0x20) << (i % 8 * 8)
		n.Mask[i/8] |= 0xff << (i % 8 * 8)
	}
	switch name {
	case "traceparent":
		n.Skip, n.Separator = uint8(len("00-")), '-'
	case "b3":
		n.Separator = '-'
	case "uber-trace-id":
		n.Separator = ':'
	}
	return n
}
