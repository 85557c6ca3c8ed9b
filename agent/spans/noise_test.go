package spans

import (
	"math/rand/v2"
	"testing"
)

// Noise is hardly ever named, even where it begins with a length that is right.
func TestNoise(t *testing.T) {
	const messages = 300000
	r := rand.New(rand.NewPCG(1, 2))
	got := map[protocol]int{}
	draw := func(n int) []byte {
		b := make([]byte, n)
		kind := r.IntN(4)
		for i := range b {
			switch {
			case kind == 0:
				b[i] = byte(r.Uint32())
			case kind == 1:
				b[i] = byte(r.IntN(4))
			case kind == 2 && r.IntN(2) == 0:
				b[i] = byte(r.IntN(32))
			case kind == 2:
				b[i] = 0
			default:
				b[i] = byte(r.IntN(96) + 32)
			}
		}
		return b
	}
	for range messages {
		n := 1 + r.IntN(64)
		x := exchange{request: draw(n), size: n}
		if r.IntN(3) > 0 {
			x.response = draw(1 + r.IntN(48))
		}
		switch r.IntN(3) { // a length that is right, as other protocols have it
		case 0:
			if n > 4 {
				x.request[0], x.request[1], x.request[2], x.request[3] = byte(n-4), 0, 0, 0
			}
		case 1:
			if n > 4 {
				x.request[0], x.request[1], x.request[2], x.request[3] = 0, 0, 0, byte(n-4)
			}
		}
		// TLS is told by three bytes, and all of COM_QUIT are five.
		if f := identify(x); f.protocol != protocolTLS && f.operation != "COM_QUIT" {
			got[f.protocol]++
		}
	}
	for p, n := range got {
		if p != protocolTCP && n > messages/10000 {
			t.Errorf("%d of %d messages are %s", n, messages, p)
		}
	}
	t.Log(got)
}
