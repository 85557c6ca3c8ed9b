package bound

import "encoding/binary"

// Types of Thrift's binary protocol.
const (
	tStop, tBool, tByte, tDouble   = 0, 2, 3, 4
	tI16, tI32, tI64, tString      = 6, 8, 10, 11
	tStruct, tMap, tSet, tList     = 12, 13, 14, 15
	thriftStruct, thriftElement    = 512, 32 // memory
	thriftListHeader, thriftString = 5, 4    // bytes
)

// thrift reads a message in Thrift's binary protocol. The decoder allocates lists of the
// size that their header says, up to 100 Mi elements, whatever follows.
type thrift struct {
	rest        []byte
	cost, limit int64
}

// walkThrift reads one value.
func walkThrift(b []byte, kind byte, limit int64) (cost int64, err error) {
	t := thrift{rest: b, limit: limit}
	err = t.value(kind, 0)
	return t.cost, err
}

func (t *thrift) value(kind byte, depth int) error {
	if depth > thriftDepth {
		return deep(thriftDepth)
	}
	if t.cost > t.limit {
		return large(t.limit)
	}
	switch kind {
	case tStruct:
		return t.fields(depth)
	case tSet, tList:
		return t.list(depth)
	case tMap:
		return t.pairs(depth)
	case tString:
		n, err := t.count(thriftString, 1)
		if err != nil {
			return err
		}
		return t.skip(n)
	default:
		n := width(kind)
		if n == 0 {
			return malformed("Thrift")
		}
		return t.skip(n)
	}
}

// width is the size of a value of a fixed size, 0 for others.
func width(kind byte) int {
	switch kind {
	case tBool, tByte:
		return 1
	case tI16:
		return 2
	case tI32:
		return 4
	case tI64, tDouble:
		return 8
	default:
		return 0
	}
}

func (t *thrift) fields(depth int) error {
	t.cost += thriftStruct
	for {
		if len(t.rest) < 1 {
			return malformed("Thrift")
		}
		kind := t.rest[0]
		if kind == tStop {
			return t.skip(1)
		}
		if err := t.skip(3); err != nil { // and the field's number
			return err
		}
		if err := t.value(kind, depth+1); err != nil {
			return err
		}
	}
}

func (t *thrift) list(depth int) error {
	if len(t.rest) < thriftListHeader {
		return malformed("Thrift")
	}
	kind := t.rest[0]
	_ = t.skip(1)
	n, err := t.count(4, smallest(kind))
	if err != nil {
		return err
	}
	t.cost += int64(n) * thriftElement
	return t.repeat(n, depth, kind)
}

func (t *thrift) pairs(depth int) error {
	if len(t.rest) < 6 {
		return malformed("Thrift")
	}
	key, value := t.rest[0], t.rest[1]
	_ = t.skip(2)
	n, err := t.count(4, smallest(key)+smallest(value))
	if err != nil {
		return err
	}
	t.cost += int64(n) * 4 * thriftElement
	return t.repeat(n, depth, key, value)
}

// repeat reads n values of each kind.
func (t *thrift) repeat(n, depth int, kinds ...byte) error {
	if t.cost > t.limit {
		return large(t.limit)
	}
	for range n {
		for _, kind := range kinds {
			if err := t.value(kind, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// smallest is the least size of an encoded value.
func smallest(kind byte) int {
	switch kind {
	case tString:
		return thriftString
	case tSet, tList:
		return thriftListHeader
	case tMap:
		return 6
	default:
		return max(1, width(kind))
	}
}

// count reads a number of elements, and holds it against what is left.
func (t *thrift) count(size, smallest int) (int, error) {
	if len(t.rest) < size {
		return 0, malformed("Thrift")
	}
	n := binary.BigEndian.Uint32(t.rest)
	_ = t.skip(size)
	if int64(n)*int64(smallest) > int64(len(t.rest)) {
		return 0, malformed("Thrift: a list or text is longer than the message")
	}
	return int(n), nil
}

func (t *thrift) skip(n int) error {
	if n > len(t.rest) {
		return malformed("Thrift")
	}
	t.rest = t.rest[n:]
	return nil
}
