package event

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/tare-trace/tare/bpf"
)

// The sizes that event.h states, so that a change of layout is a decision.
func TestSizes(t *testing.T) {
	for name, tc := range map[string]struct{ got, want int }{
		"start":      {StartSize, 352},
		"data":       {DataSize, 272},
		"end":        {EndSize, 24},
		"published":  {PublishedSize, 40},
		"path":       {PathSize, 128},
		"data short": {int(unsafe.Offsetof(bpf.Data{}.Payload)), bpf.DataShort},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, tc.got, tc.want)
		}
	}
}

func raw[T any](v T) []byte {
	return append([]byte(nil), bytesOf(&v)...)
}

func start() bpf.Start {
	s := bpf.Start{Type: uint8(bpf.TareRecordTypeTARE_START), Role: uint8(bpf.TareRoleTARE_SERVER), PayloadLen: 3, SpanId: 7}
	copy(s.Payload[:], "GET")
	return s
}

func TestDecode(t *testing.T) {
	var r Record
	if err := r.Decode(raw(start())); err != nil {
		t.Fatal(err)
	}
	if r.Start.SpanId != 7 || string(r.Payload()) != "GET" {
		t.Errorf("start decoded as %+v", r.Start)
	}
	d := bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA), SpanId: 9, Bytes: 5, PayloadLen: 2}
	copy(d.Payload[:], "ok")
	if err := r.Decode(raw(d)); err != nil || r.Data.Bytes != 5 || string(r.Payload()) != "ok" {
		t.Errorf("data decoded as %+v, %v", r.Data, err)
	}
	d.PayloadLen = 0
	if err := r.Decode(raw(d)[:bpf.DataShort]); err != nil || len(r.Payload()) != 0 {
		t.Errorf("short data: %v, payload %q", err, r.Payload())
	}
	e := bpf.End{Type: uint8(bpf.TareRecordTypeTARE_END), Reason: 2, Error: 104, SpanId: 9}
	if err := r.Decode(raw(e)); err != nil || r.End != e {
		t.Errorf("end decoded as %+v, %v", r.End, err)
	}
	path := bpf.Path{Type: uint8(bpf.TareRecordTypeTARE_PATH), Len: 108, SpanId: 9}
	if err := r.Decode(raw(path)); err != nil || r.Path != path {
		t.Errorf("path decoded as %+v, %v", r.Path, err)
	}
	if path.Len++; r.Decode(raw(path)) == nil {
		t.Error("a path of 109 bytes is taken")
	}
	p := bpf.Published{Type: uint8(bpf.TareRecordTypeTARE_PUBLISHED), Flags: 1, SpanId: 9, SdkTrace: [16]byte{1}, SdkSpan: [8]byte{2}}
	if err := r.Decode(raw(p)); err != nil || r.Published != p || r.Payload() != nil {
		t.Errorf("published decoded as %+v, %v", r.Published, err)
	}
}

func TestDecodeMalformed(t *testing.T) {
	long, role := start(), start()
	long.PayloadLen = 193
	role.Role = 3
	d := bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA), PayloadLen: 1}
	for name, b := range map[string][]byte{
		"empty":                 nil,
		"unknown type":          {9, 0, 0, 0},
		"start cut off":         raw(start())[:StartSize-1],
		"payload too long":      raw(long),
		"no such role":          raw(role),
		"data cut off":          raw(d)[:bpf.DataShort-1],
		"payload not there":     raw(d)[:bpf.DataShort],
		"end cut off":           raw(bpf.End{Type: uint8(bpf.TareRecordTypeTARE_END)})[:EndSize-1],
		"published cut off":     raw(bpf.Published{Type: uint8(bpf.TareRecordTypeTARE_PUBLISHED)})[:PublishedSize-1],
		"one byte of each type": {1},
	} {
		var r Record
		if err := r.Decode(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeControl(make([]byte, 3)); !errors.Is(err, ErrMalformed) {
		t.Errorf("control cut off: %v", err)
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	var r Record
	b := raw(start())
	if n := testing.AllocsPerRun(100, func() { _ = r.Decode(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(raw(start()))
	f.Add(raw(bpf.Data{Type: uint8(bpf.TareRecordTypeTARE_DATA)}))
	f.Add(raw(bpf.End{Type: uint8(bpf.TareRecordTypeTARE_END)}))
	f.Add(raw(bpf.Published{Type: uint8(bpf.TareRecordTypeTARE_PUBLISHED)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Record
		if err := r.Decode(b); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		if n := len(r.Payload()); n > len(b) {
			t.Errorf("%d bytes of payload from %d bytes", n, len(b))
		}
	})
}
