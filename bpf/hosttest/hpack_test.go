//go:build cgo

package hosttest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

var correlated = []string{"traceparent", "x-request-id", "x-b"}

// wantedOf are values of the headers that count, as HPACK returns them.
func wantedOf(fields []hpack.HeaderField) (want []string) {
	for _, f := range fields {
		if slices.Contains(correlated, f.Name) {
			want = append(want, f.Name+": "+f.Value[:min(len(f.Value), HPACKText)])
		}
	}
	return want
}

// field is any: of the static table and of none, with values that come again and that do not, short, long, longer
// than the table, with Huffman's code and without.
func field(rnd *rand.Rand) hpack.HeaderField {
	names := append([]string{":method", ":path", "cookie", "accept-encoding", "x-other", strings.Repeat("n", rnd.IntN(300)+1)}, correlated...)
	f := hpack.HeaderField{Name: names[rnd.IntN(len(names))], Sensitive: rnd.IntN(8) == 0}
	n := rnd.IntN(60)
	switch rnd.IntN(10) {
	case 0:
		n = rnd.IntN(6000)
	case 1:
		n = 0
	}
	value := make([]byte, n)
	for i := range value {
		if value[i] = "0123456789abcdef-"[rnd.IntN(17)]; n%3 == 0 {
			value[i] = byte(rnd.Uint32())
		}
	}
	f.Value = string(value)
	switch rnd.IntN(4) {
	case 0:
		f.Value = fmt.Sprintf("repeated-%d", rnd.IntN(20))
	case 1:
		f = hpack.HeaderField{Name: ":method", Value: "GET"}
	}
	return f
}

// Of whatever an encoder writes, cut anywhere, the values are found that were sent.
func TestHPACKReads(t *testing.T) {
	var found int
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		h, block := NewHPACK(correlated...), bytes.Buffer{}
		e := hpack.NewEncoder(&block)
		for range 100 {
			block.Reset()
			if rnd.IntN(10) == 0 {
				e.SetMaxDynamicTableSize(uint32(rnd.IntN(4097)))
			}
			if rnd.IntN(30) == 0 {
				e.SetMaxDynamicTableSize(0)
			}
			fields := make([]hpack.HeaderField, rnd.IntN(20))
			for i := range fields {
				fields[i] = field(rnd)
				if err := e.WriteField(fields[i]); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for rest := block.Bytes(); len(rest) > 0; {
				n := min(len(rest), 1+rnd.IntN(1+rnd.IntN(200)))
				values, ok := h.Read(rest[:n])
				if !ok {
					t.Fatalf("seed %d: refused", seed)
				}
				got, rest = append(got, values...), rest[n:]
			}
			if want := wantedOf(fields); !h.Whole() || !slices.Equal(got, want) {
				t.Fatalf("seed %d: %q, want %q", seed, got, want)
			}
			found += len(got)
		}
	}
	if found < 3000 {
		t.Errorf("only %d values were sent", found)
	}
}

// A table that is larger than agreed is not followed.
func TestHPACKSize(t *testing.T) {
	for size, want := range map[byte]bool{0x00: true, 0x01: false} { // 4096, 4097
		if _, ok := NewHPACK().Read([]byte{0x3f, 0xe1 + size, 0x1f}); ok != want {
			t.Errorf("4096+%d: %v", size, ok)
		}
	}
}

// Any bytes end, and where an ordinary decoder accepts them too, the values are the same.
func FuzzHPACK(f *testing.F) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for range 12 {
			if err := e.WriteField(field(rnd)); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(block.Bytes(), block.Bytes())
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		h := NewHPACK(correlated...)
		var want, got []string
		d := hpack.NewDecoder(4096, func(field hpack.HeaderField) { want = append(want, wantedOf([]hpack.HeaderField{field})...) })
		for _, block := range [][]byte{first, second} {
			values, ok := h.Read(block)
			_, err := d.Write(block)
			if !ok || !h.Whole() || err != nil || d.Close() != nil {
				return
			}
			got = append(got, values...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// The status of a response is read without its table, and not guessed.
func TestStatusClass(t *testing.T) {
	for status := 100; status < 600; status++ {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for _, want := range []uint{uint(status / 100), 0} { // then it is in the table
			block.Reset()
			if err := e.WriteField(hpack.HeaderField{Name: ":status", Value: fmt.Sprint(status)}); err != nil {
				t.Fatal(err)
			}
			if block.Bytes()[0] >= 0x88 && block.Bytes()[0] <= 0x8e {
				want = uint(status / 100)
			}
			if got := StatusClass(block.Bytes()); got != want {
				t.Errorf("%d, %x: %d, want %d", status, block.Bytes(), got, want)
			}
		}
		plain := fmt.Appendf([]byte{0x08, 3}, "%d", status)
		if got := StatusClass(plain); got != uint(status/100) {
			t.Errorf("%d, %q: %d", status, plain, got)
		}
	}
	for _, other := range []string{"", "\x82", "\x40\x07:status\x03200", "\x3f\xe1\x1f\x88"} {
		if got := StatusClass([]byte(other)); got != 0 {
			t.Errorf("%q: %d", other, got)
		}
	}
}
