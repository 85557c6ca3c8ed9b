package native

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

const (
	maxHeaders = 64      // of a program, and
	maxDynamic = 256     // entries of its dynamic section, that are looked at
	maxChain   = 1 << 12 // symbols with one bucket of a hash table
)

// exports reports whether the module whose file is mapped at low defines a dynamic symbol.
// It reads what the dynamic linker reads (DT_GNU_HASH), a few pages of each module, and no
// file. Modules with the older hash table only are taken to define nothing.
func (p *Process) exports(low uint64, name string) bool {
	head := p.Read(low, 64)
	if head == nil || !bytes.HasPrefix(head, []byte(elf.ELFMAG)) || elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return false
	}
	const size = 56 // of a program header
	at := low + binary.LittleEndian.Uint64(head[32:])
	bias, dynamic, loaded := uint64(0), uint64(0), false
	for range min(binary.LittleEndian.Uint16(head[56:]), maxHeaders) {
		switch elf.ProgType(p.Half(at)) {
		case elf.PT_LOAD:
			if !loaded {
				bias, loaded = low-p.Word(at+16)&^(pageSize-1), true
			}
		case elf.PT_DYNAMIC:
			dynamic = p.Word(at + 16)
		}
		at += size
	}
	if !loaded || dynamic == 0 {
		return false
	}
	var hash, symbols, names uint64
	for at, left := bias+dynamic, maxDynamic; left > 0; at, left = at+16, left-1 {
		// glibc has written addresses here, others have left offsets.
		value := p.Word(at + 8)
		if value < low {
			value += bias
		}
		switch elf.DynTag(p.Word(at)) {
		case elf.DT_NULL:
			left = 1
		case elf.DT_GNU_HASH:
			hash = value
		case elf.DT_SYMTAB:
			symbols = value
		case elf.DT_STRTAB:
			names = value
		}
	}
	return hash != 0 && symbols != 0 && names != 0 && p.hashed(hash, symbols, names, name)
}

// hashed looks a name up in a hash table of GNU's.
func (p *Process) hashed(hash, symbols, names uint64, name string) bool {
	h := uint32(5381)
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	buckets, first, words, shift := p.Half(hash), p.Half(hash+4), p.Half(hash+8), p.Half(hash+12)
	if buckets == 0 || words == 0 {
		return false
	}
	bloom := p.Word(hash + 16 + 8*uint64(h/64%words))
	if both := uint64(1)<<(h%64) | uint64(1)<<(h>>(shift%32)%64); bloom&both != both {
		return false
	}
	table := hash + 16 + 8*uint64(words)
	number := p.Half(table + 4*uint64(h%buckets))
	for range maxChain {
		if number < first {
			return false
		}
		other := p.Half(table + 4*(uint64(buckets)+uint64(number-first)))
		if at := symbols + 24*uint64(number); other|1 == h|1 && p.String(names+uint64(p.Half(at))) == name {
			return elf.SectionIndex(p.Half(at+4)>>16) != elf.SHN_UNDEF
		}
		if other&1 != 0 {
			return false
		}
		number++
	}
	return false
}
