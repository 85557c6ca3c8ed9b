//go:build cgo

package hosttest

import (
	"bytes"
	"slices"
	"testing"
	"testing/quick"
)

var (
	mark     = []byte{253, 4, 0x54, 0x61}
	longMark = append([]byte{253, 28, 0x54, 0x61}, "a service, 24 bytes long"...)
)

// What is written is read, by itself and behind other options, and is as long as an IP
// header wants it.
func TestIPRoundTrip(t *testing.T) {
	check := func(c TagContext, offset uint16, v6, marked, retro bool) bool {
		c.TraceID[3], c.TraceID[11], c.SpanID[5], c.Flags, c.Pad = c.TraceID[3]|1, c.TraceID[11]|1, c.SpanID[5]|1, 0, 0 // never zero
		result := TagOK
		if retro {
			c.Derive()
			result = TagUnsampled
		}
		data, wantMark := EncodeTag(c, uint32(offset)), 0
		if marked {
			data, wantMark = append(data, mark...), 4
		}
		options := WriteIP(data, v6, 6)
		if v6 && (len(options)%8 != 0 || options[0] != 6 || int(options[1]) != len(options)/8-1) || !v6 && len(options)%4 != 0 || len(options) > 40 {
			return false
		}
		want := Said{TagContext: c, Offset: uint32(offset), Tag: 1 + result, Mark: wantMark}
		return ReadIP(options, v6) == want
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	for _, v6 := range []bool{false, true} {
		if got := ReadIP(WriteIP(mark, v6, 6), v6); got != (Said{Mark: 4}) {
			t.Errorf("mark: %+v", got)
		}
		if got := ReadIP(WriteIP(longMark, v6, 6), v6); got != (Said{Mark: 28, Name: "a service, 24 bytes long"}) {
			t.Errorf("longer mark: %+v", got)
		}
	}
	behind := append([]byte{1, 1, 148, 4, 0, 0}, WriteIP(mark, false, 0)...)
	if got := ReadIP(behind, false); got.Mark != 4 {
		t.Errorf("behind padding and a router alert: %+v", got)
	}
	behind = slices.Concat([]byte{6, 1, 0, 1, 1, 0}, []byte{0x1e, 4}, mark, make([]byte, 4))
	if got := ReadIP(behind, true); got.Mark != 4 {
		t.Errorf("behind Pad1 and PadN: %+v", got)
	}
}

// Whatever a header says, nothing is read that is not there: the bytes behind its options
// change nothing, and only what is a tag or a mark is taken for one.
func FuzzIPOptions(f *testing.F) {
	tag := EncodeTag(TagContext{Context: Context{TraceID: [16]byte{1}, SpanID: [8]byte{2}}}, 7)
	of := TagContext{Context: Context{SpanID: [8]byte{2}}}
	of.Derive()
	retro := EncodeTag(of, 7)
	for _, v6 := range []bool{false, true} {
		for _, data := range [][]byte{tag, mark, longMark, slices.Concat(tag, mark), retro, slices.Concat(retro, mark), {25, 26}, {25, 255}, {253, 4}, nil} {
			f.Add(WriteIP(data, v6, 6), v6)
		}
	}
	f.Add([]byte{94, 0, 0, 0}, false)
	f.Add([]byte{94, 1, 0, 0}, false)
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 94}, false)
	f.Fuzz(func(t *testing.T, options []byte, v6 bool) {
		options = options[:min(len(options), 40)]
		said := ReadIP(options, v6)
		if said != readIPBehind(options, v6) {
			t.Errorf("bytes behind the options were read: %x", options)
		}
		if said.Tag == 1+TagOK && !bytes.Contains(options, said.SpanID[:]) || said.Mark > 0 && !bytes.Contains(options, mark[2:]) {
			t.Errorf("%x says %+v", options, said)
		}
	})
}
