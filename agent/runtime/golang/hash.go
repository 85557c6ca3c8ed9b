package golang

import (
	"encoding/binary"
)

// HashKind tells how the program hashes a key of 32 bits.
type HashKind uint8

// The hash begins with 16 bytes, the seed in the first of them and the key in
// a later lane of 32 bits, and goes over them with three AES rounds. Its result
// is the first 8 bytes.
const (
	NoHash HashKind = iota
	// HashAESENC is amd64's: three full rounds (AESENC), each with a key of its own.
	HashAESENC
	// HashAESE is arm64's: AESE with the same key each time, followed by AESMC
	// but for the last time.
	HashAESE
)

// Hash is the map's hash function, runtime.memhash32.
type Hash struct {
	Kind HashKind
	Lane uint8     // of the key, in units of 32 bits
	Seed uint8     // bits of the seed that are used: 32 or 64
	Keys [3]uint64 // addresses of the round keys of 16 bytes
}

const maxHashCode = 4096

// findHash reads the function that a map's type names for hashing, or, as that
// may only call the one with the instructions, what it calls.
func (m *module) findHash(at uint64, depth int) (Hash, bool) {
	f, ok := m.at(at)
	if !ok || f.Low != at || f.High-f.Low > maxHashCode {
		return Hash{}, false
	}
	code := m.read(f.Low, f.High-f.Low)
	if code == nil {
		return Hash{}, false
	}
	if h, ok := m.arch.hash(f.Low, code); ok {
		for _, k := range h.Keys {
			// In bss as a rule, which has no content in the file.
			if k < m.text {
				return Hash{}, false
			}
		}
		return h, true
	}
	var targets []uint64
	m.arch.calls(f.Low, code, func(_, target uint64) {
		if len(targets) < 8 {
			targets = append(targets, target)
		}
	})
	if depth > 0 {
		for _, target := range targets {
			if h, ok := m.findHash(target, depth-1); ok {
				return h, true
			}
		}
	}
	return Hash{}, false
}

// hashAMD64: aesenc xmm0, [rip+n] three times, or the same as vaesenc.
func hashAMD64(at uint64, code []byte) (h Hash, ok bool) {
	n := 0
	for i := 0; i+9 <= len(code); i++ {
		c := code[i:]
		plain := c[0] == 0x66 && c[1] == 0x0f && c[2] == 0x38 && c[3] == 0xdc && c[4]&0xc7 == 0x05
		vex := c[0] == 0xc4 && c[1]&0x1f == 0x02 && c[2]&0x07 == 0x01 && c[3] == 0xdc && c[4]&0xc7 == 0x05
		if !plain && !vex {
			continue
		}
		if n == len(h.Keys) {
			return Hash{}, false
		}
		h.Keys[n] = at + uint64(i) + 9 + uint64(int64(int32(binary.LittleEndian.Uint32(c[5:]))))
		n++
	}
	h.Kind, h.Lane, h.Seed = HashAESENC, 2, 64
	return h, n == 3
}

// hashARM64: adrp and add give the address of one key; which lanes the seed and
// the key of the map go to has changed in Go 1.27.
func hashARM64(at uint64, code []byte) (h Hash, ok bool) {
	const aese, aesmc = 0x4e284840, 0x4e286800
	var page, key uint64
	rounds := 0
	for i := 0; i+4 <= len(code); i += 4 {
		w := binary.LittleEndian.Uint32(code[i:])
		switch {
		case w&0x9f000000 == 0x90000000: // adrp
			imm := int64(int32(w>>5<<13)>>11)&^3 | int64(w>>29&3)
			page = (at+uint64(i))&^0xfff + uint64(imm<<12)
		case w&0xffc003ff == 0x91000063 && key == 0: // add x3, x3, imm
			key = page + uint64(w>>10&0xfff)
		case w == aese:
			rounds++
		case w == 0x0d409000: // ld1 {v0.s}[1], [x0]
			h.Lane = 1
		case w == 0x4e041c20: // mov v0.s[0], w1
			h.Seed = 32
		case w == 0x4e141c00: // mov v0.s[2], w0
			h.Lane = 2
		case w == 0x4e081c20: // mov v0.d[0], x1
			h.Seed = 64
		}
	}
	_ = aesmc
	h.Kind, h.Keys = HashAESE, [3]uint64{key, key, key}
	return h, rounds == 3 && key != 0 && h.Lane != 0 && h.Seed != 0
}
