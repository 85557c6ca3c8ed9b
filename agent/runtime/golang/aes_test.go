package golang

// aesenc is one round of AES as the processor's instruction does it.
func aesenc(s, key [16]byte) (out [16]byte) {
	double := func(b byte) byte { return b<<1 ^ b>>7*0x1b }
	for c := range 4 {
		var col [4]byte
		for r := range 4 {
			col[r] = sbox[s[(c+r)%4*4+r]]
		}
		all := col[0] ^ col[1] ^ col[2] ^ col[3]
		for r := range 4 {
			out[4*c+r] = col[r] ^ all ^ double(col[r]^col[(r+1)%4]) ^ key[4*c+r]
		}
	}
	return out
}

var sbox = func() (box [256]byte) {
	mul := func(a, b byte) (p byte) {
		for ; b != 0; b >>= 1 {
			if b&1 != 0 {
				p ^= a
			}
			a = a<<1 ^ a>>7*0x1b
		}
		return p
	}
	for x := range 256 {
		inverse := byte(0)
		for y := 1; y < 256; y++ {
			if mul(byte(x), byte(y)) == 1 {
				inverse = byte(y)
			}
		}
		for i, b := 0, inverse; i < 5; i++ {
			box[x] ^= b
			b = b<<1 | b>>7
		}
		box[x] ^= 0x63
	}
	return box
}()
