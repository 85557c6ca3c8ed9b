package bound

import "testing"

// What the check of a request costs, beside the decoding that it allows.
func BenchmarkCheck(b *testing.B) {
	body := usual(576)
	b.Run("check", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := byShape(tracesShape)(body, 1<<40); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := decodeTraces(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
