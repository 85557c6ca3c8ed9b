package planted

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// Finder looks for the values of a range of requests in the bytes that a store receives.
// It looks at all bytes of a message, so that no field is left out, whatever it is called:
// texts stand in OTLP as they are. What is percent-encoded is decoded first, as often as it
// was encoded, up to three times. Base64, hexadecimal and compressed texts are not decoded.
type Finder struct {
	first   uint64
	values  []found
	windows map[uint64][]int32 // values by the last 8 bytes of their cores
	arrived []bool             // requests, from first
}

type found struct {
	Value
	place  Place
	number uint64
	times  int
}

// NewFinder looks for the requests from first to before next.
func NewFinder(first, next uint64) *Finder {
	f := &Finder{first: first, windows: map[uint64][]int32{}}
	if next > first {
		f.arrived = make([]bool, next-first)
	}
	for n := first; n < next; n++ {
		each(n, func(place Place, v Value) {
			w := window([]byte(v.Core[len(v.Core)-MinCore:]))
			f.windows[w] = append(f.windows[w], int32(len(f.values))) //nolint:gosec // memory ends before
			f.values = append(f.values, found{Value: v, place: place, number: n})
		})
	}
	return f
}

func window(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Add looks at what was received, such as the body of an OTLP request after decompression.
// It reads anything.
func (f *Finder) Add(body []byte) {
	for range 3 {
		decoded, ok := percentDecoded(body)
		if !ok {
			break
		}
		body = decoded
	}
	f.requests(body)
	if len(body) < MinCore {
		return
	}
	for end := MinCore; end <= len(body); end++ {
		for _, i := range f.windows[window(body[end-MinCore:])] {
			v := &f.values[i]
			if begin := end - len(v.Core); begin >= 0 && string(body[begin:end]) == v.Core {
				v.times++
			}
		}
	}
}

// requests notes whose path is in the body.
func (f *Finder) requests(body []byte) {
	for {
		i := bytes.Index(body, []byte(Path))
		if i < 0 {
			return
		}
		body = body[i+len(Path):]
		digits := 0
		for digits < len(body) && '0' <= body[digits] && body[digits] <= '9' {
			digits++
		}
		n, err := strconv.ParseUint(string(body[:digits]), 10, 64)
		if err == nil && bytes.HasPrefix(body[digits:], []byte(pathEnd)) && n >= f.first && n-f.first < uint64(len(f.arrived)) {
			f.arrived[n-f.first] = true
		}
	}
}

// percentDecoded is b with each %XX decoded; false: it has none.
func percentDecoded(b []byte) (dst []byte, had bool) {
	if bytes.IndexByte(b, '%') < 0 {
		return nil, false
	}
	for i := 0; i < len(b); i++ {
		if b[i] == '%' && i+2 < len(b) {
			if hi, lo := unhex(b[i+1]), unhex(b[i+2]); hi >= 0 && lo >= 0 {
				dst, had, i = append(dst, byte(hi<<4|lo)), true, i+2
				continue
			}
		}
		dst = append(dst, b[i])
	}
	return dst, had
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// Count is what became of values that have something in common.
type Count struct {
	// Planted are the values of the requests that have a trace.
	Planted int `json:"planted"`
	// Stored are those of them that were received at least once, in one piece.
	Stored int `json:"stored"`
}

func (c *Count) add(stored bool) {
	c.Planted++
	if stored {
		c.Stored++
	}
}

// Counts are of all that was received.
type Counts struct {
	// Requests that have a trace: their path was received.
	Requests int
	// Secrets by class, Places of secrets, Decoys by class.
	Secrets, Decoys map[string]Count
	Places          map[string]Count
	// Bytes of cores of secrets, each as often as it was received.
	Bytes int
	// Strays are secrets of requests whose path was not received.
	Strays int
}

// Total adds up counts.
func Total(of map[string]Count) (all Count) {
	for _, c := range of {
		all.Planted, all.Stored = all.Planted+c.Planted, all.Stored+c.Stored
	}
	return all
}

// Counts tells what has been received.
func (f *Finder) Counts() Counts {
	c := Counts{Secrets: map[string]Count{}, Decoys: map[string]Count{}, Places: map[string]Count{}}
	for _, came := range f.arrived {
		if came {
			c.Requests++
		}
	}
	count := func(of map[string]Count, key string, stored bool) {
		sum := of[key]
		sum.add(stored)
		of[key] = sum
	}
	for i := range f.values {
		v := &f.values[i]
		if !v.Decoy {
			c.Bytes += v.times * len(v.Core)
		}
		switch {
		case !f.arrived[v.number-f.first]:
			if v.times > 0 && !v.Decoy {
				c.Strays++
			}
		case v.Decoy:
			count(c.Decoys, v.Class, v.times > 0)
		default:
			count(c.Secrets, v.Class, v.times > 0)
			count(c.Places, string(v.place), v.times > 0)
		}
	}
	return c
}
