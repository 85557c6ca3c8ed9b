package golang

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// arch is what differs between processors: how frames are laid out, how calls
// and the hash of a map's keys are written.
type arch struct {
	name    string
	quantum byte // smallest instruction, in bytes
	// Distances in bytes from a function's frame pointer: of the slots of its
	// arguments, and of what its records count its variables from; and whether
	// the size of its frame comes on top.
	arguments, locals int32
	frameSizeCounts   bool
	// calls passes on the target of each direct call in code that begins at an
	// address, and the address behind it.
	calls func(at uint64, code []byte, yield func(after, target uint64))
	// entry gives the distances of a function with a frame of size bytes, called
	// by a goroutine's first function with a stack pointer depth bytes below the
	// one at its entry.
	entry func(depth, size, slot int32) Entry
	// hash finds the keys of memhash32 in its code.
	hash func(at uint64, code []byte) (Hash, bool)
}

var arches = map[elf.Machine]*arch{
	elf.EM_X86_64:  &amd64,
	elf.EM_AARCH64: &arm64,
}

// amd64: the caller pushes the return address, the function then the frame
// pointer, and points it there. A goroutine begins with four words that stay
// free at the end of its stack, below them goexit's address as its return
// address.
var amd64 = arch{
	name: "amd64", quantum: 1, arguments: 16, locals: 0,
	calls: func(at uint64, code []byte, yield func(after, target uint64)) {
		for o := 0; ; o++ {
			i := bytes.IndexByte(code[o:], 0xe8) // call rel32
			if o += i; i < 0 || o+5 > len(code) {
				return
			}
			after := at + uint64(o) + 5
			yield(after, after+uint64(int64(int32(binary.LittleEndian.Uint32(code[o+1:])))))
		}
	},
	entry: func(depth, size, slot int32) Entry {
		const first = 40            // of the word with goexit's address
		called := first + depth + 8 // of the return address into the first function
		pointer := called + 8       // of the saved frame pointer, where the frame pointer points
		return Entry{Return: uint32(called), Slot: uint32(pointer - slot), Inside: uint32(called + size + 8)}
	},
	hash: hashAMD64,
}

// arm64: the function stores the return address at the bottom of its frame, the
// frame pointer below that. A goroutine begins with six words free.
var arm64 = arch{
	// The frame pointer points 8 bytes below the frame; its caller's frame begins
	// behind it, arguments one word later. Variables end one word before.
	name: "arm64", quantum: 4, arguments: 16, locals: 0, frameSizeCounts: true,
	calls: func(at uint64, code []byte, yield func(after, target uint64)) {
		for o := int(-at & 3); o+4 <= len(code); o += 4 {
			if w := binary.LittleEndian.Uint32(code[o:]); w>>26 == 0x25 { // bl
				pc := at + uint64(o)
				yield(pc+4, pc+uint64(int64(int32(w<<6)>>4)))
			}
		}
	},
	entry: func(depth, size, slot int32) Entry {
		const first = 48
		bottom := first + depth + size // of the function's stack pointer, where its return address is
		return Entry{Return: uint32(bottom), Slot: uint32(bottom + 8 - slot)}
	},
	hash: hashARM64,
}
