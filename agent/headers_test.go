package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tare-trace/tare/bpf"
)

// A header keeps its number, and what finds no room is said once.
func TestHeadersKeepTheirNumbers(t *testing.T) {
	var log bytes.Buffer
	var table bpf.TareHeaderNames
	h := headers{log: slog.New(slog.NewTextHandler(&log, nil)), put: func(name string, _, value any) error {
		if name != "header_names" {
			return fmt.Errorf("table %s", name)
		}
		table = value.(bpf.TareHeaderNames)
		return nil
	}}
	bits := func(want uint32, names ...string) {
		t.Helper()
		if got, err := h.bits(names); got != want || err != nil {
			t.Errorf("%v: %b, %v, want %b", names, got, err, want)
		}
	}
	bits(0)
	bits(3, "b3", "x-request-id")
	bits(6, "x-request-id", "x-tenant")
	if table.N != 3 || h.name(1) != "x-request-id" || h.name(3) != "" {
		t.Errorf("%d names, %q", table.N, h.name(1))
	}
	for i := range 30 {
		if _, err := h.bits([]string{fmt.Sprintf("x-%d", i)}); err != nil {
			t.Error(err)
		}
	}
	bits(1<<31, "x-28")
	bits(1, "x-29", "b3")
	if n := strings.Count(log.String(), "too many correlation headers"); n != 1 || table.N != 32 {
		t.Errorf("%d names, said %d times that there is no room", table.N, n)
	}
}

// Headers that HPACK has numbers for are known by these. Those that HTTP/2 writes otherwise than HTTP/1 are told
// from the others.
func TestHeadersWithNumbers(t *testing.T) {
	h := headers{log: slog.New(slog.DiscardHandler), put: func(string, any, any) error { return nil }}
	if _, err := h.bits([]string{"x-request-id", "via", "cookie", "host"}); err != nil {
		t.Fatal(err)
	}
	want := map[int]uint8{60: 2, 32: 3 | bpf.HeaderSplit, 1: 4 | bpf.HeaderSplit, 38: 4 | bpf.HeaderSplit} // RFC 7541, appendix A
	for i, got := range h.table.Fixed {
		if got != want[i] {
			t.Errorf("%d: %#x, want %#x", i, got, want[i])
		}
	}
}

// Names are compared in lower case by eight bytes, with their colon.
func TestHeaderNames(t *testing.T) {
	for name, want := range map[string]bpf.TareHeaderName{
		"b3":          {Len: 3, Separator: '-', Word: [4]uint64{0x3a3362}, Mask: [4]uint64{0xffffff}},
		"x-corre":     {Len: 8, Separator: '\n', Word: [4]uint64{0x3a6572726f632d78}, Mask: [4]uint64{^uint64(0)}},
		"traceparent": {Len: 12, Skip: 3, Separator: '-', Word: [4]uint64{0x7261706563617274, 0x3a746e65}, Mask: [4]uint64{^uint64(0), 0xffffffff}},
	} {
		if got := headerName(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
