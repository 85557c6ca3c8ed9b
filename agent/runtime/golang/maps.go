package golang

// Map tells how to look a key of 32 bits up in one of the program's maps, whose
// values are pointers. A map begins with its number of entries (8 bytes), the
// seed, a pointer, a length and two bytes, of which the second is the shift. With
// length 0, the pointer is to the map's only group; else to that many pointers
// to tables, chosen by hash >> shift. A table has its groups at 16 and the number
// of groups less one at 24. A group begins with 8 control bytes.
type Map struct {
	Group  uint32 // bytes of a group
	Key    uint32 // offset of its first key
	Stride uint32 // from one key to the next, and from one value to the next
	Elem   uint32 // offset of its first value
	Hash   Hash   // NoHash: only a search through all groups finds a key
}

// Tables of maps before Go 1.24, as named in the type of their buckets.
const bucketsBefore124 = "topbits"

// mapOf reads the geometry of a map's type from the type of its groups.
func (m *module) mapOf(t typ) (Map, Reason) {
	if t.kind != kindMap {
		return Map{}, NoMap
	}
	group, ok := m.typeAt(m.pointer(t.addr + 64))
	if !ok || group.kind != kindStruct || group.size > 1<<16 {
		return Map{}, UnknownMap
	}
	if _, old := m.field(group, bucketsBefore124); old {
		return Map{}, MapBefore124
	}
	key, ok := m.typeAt(m.pointer(t.addr + 48))
	if !ok || key.size != 4 {
		return Map{}, UnknownMap
	}
	elem, ok := m.elem(t)
	if !ok || elem.kind != kindPointer {
		return Map{}, UnknownMap
	}
	ctrl, ok := m.field(group, "ctrl")
	if !ok || ctrl.off != 0 || ctrl.typ.size != 8 {
		return Map{}, UnknownMap
	}
	slots, ok := m.field(group, "slots")
	slot, isArray := m.elem(slots.typ)
	if !ok || !isArray || slots.typ.kind != kindArray || slots.typ.size != 8*slot.size {
		return Map{}, UnknownMap // keys and values apart (GOEXPERIMENT=mapsplitgroup)
	}
	k, ok1 := m.field(slot, "key")
	e, ok2 := m.field(slot, "elem")
	if !ok1 || !ok2 {
		return Map{}, UnknownMap
	}
	g := Map{Group: uint32(group.size), Key: uint32(slots.off + k.off), Elem: uint32(slots.off + e.off), Stride: uint32(slot.size)}
	g.Hash, _ = m.findHash(m.pointer(m.pointer(t.addr+72)), 2)
	return g, Fits
}
