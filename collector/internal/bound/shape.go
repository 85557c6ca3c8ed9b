package bound

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Depths that a message may have. Attributes of attributes are the only part of OTLP that
// can be nested at will; the outer messages take 6 levels of protobuf, each array 2, each
// map 3 of them. Implementations of protobuf commonly stop at 100.
const (
	protoDepth  = 100
	jsonDepth   = 200 // one array is {"arrayValue":{"values":[
	thriftDepth = 64
)

// errShape is the class of errors that no repetition of the request can mend.
var errShape = errors.New("refused before decoding")

// shapeError has the reason for the metric.
type shapeError struct {
	reason string
	text   string
}

func (e *shapeError) Error() string        { return e.text }
func (e *shapeError) Is(target error) bool { return target == errShape }

func deep(limit int) error {
	return &shapeError{"depth", fmt.Sprintf("nested deeper than %d levels", limit)}
}

func large(limit int64) error {
	return &shapeError{"objects", fmt.Sprintf("decoding it would take more than %d MiB: send fewer spans at once", limit>>20)}
}

func malformed(format string) error {
	return &shapeError{"malformed", "not valid " + format}
}

// shape is what a message of protobuf consists of, as far as decoding it takes memory.
type shape struct {
	size   int64 // of the decoded struct, without what it points to
	fields fields
	names  map[string]*shape // messages, by their names in JSON
}

// fields are those of a message by their numbers. They are looked up for each field that is
// received, which a map would make the most expensive part of the check.
type fields []field

func (f *fields) set(n protowire.Number, to field) {
	if missing := int(n) + 1 - len(*f); missing > 0 {
		*f = append(*f, make([]field, missing)...)
	}
	(*f)[n] = to
}

// at returns the field of a tag; its number is modulo 2^32, as pdata has it. One that is not
// known takes no memory.
func (f fields) at(tag uint64) *field {
	if n := uint32(tag >> 3); n < uint32(len(f)) { //nolint:gosec // see above
		return &f[n]
	}
	return &unknown
}

var unknown field

type field struct {
	message *shape // nil: a list of scalars, or nothing
	element int64  // memory of an element that is encoded by itself
	byte    int64  // memory for a byte of packed elements
}

// cost is the memory of one more object of this shape: it is in a list that grows by
// doubling, as a value or by pointer.
func (s *shape) cost() int64 { return 2*s.size + 32 }

// shapeOf makes the shape of a message and of all that it contains.
func shapeOf(d protoreflect.MessageDescriptor, known map[protoreflect.FullName]*shape) *shape {
	if s := known[d.FullName()]; s != nil {
		return s
	}
	s := &shape{size: sizeOf(d, nil), names: map[string]*shape{}}
	known[d.FullName()] = s
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		switch {
		case f.Message() != nil:
			child := shapeOf(f.Message(), known)
			s.fields.set(f.Number(), field{message: child})
			s.names[f.JSONName()], s.names[f.TextName()] = child, child
		case f.IsList():
			s.fields.set(f.Number(), list(f.Kind()))
		case f.ContainingOneof() != nil:
			s.fields.set(f.Number(), field{element: 2 * scalarSize(f.Kind())})
		}
	}
	return s
}

// sizeOf is the size of a Go struct with a message's fields. Single messages are within
// it, unless they contain themselves.
func sizeOf(d protoreflect.MessageDescriptor, within []protoreflect.FullName) int64 {
	var n int64
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		switch {
		case f.IsList() || f.IsMap():
			n += 24
		case f.ContainingOneof() != nil: // allocated by itself
			if f.ContainingOneof().Fields().Get(0) == f {
				n += 16
			}
		case f.Message() != nil:
			n += 16
			if !slices.Contains(within, f.Message().FullName()) {
				n += sizeOf(f.Message(), append(within, d.FullName()))
			}
		default:
			n += scalarSize(f.Kind())
		}
	}
	return n
}

func scalarSize(k protoreflect.Kind) int64 {
	switch k {
	case protoreflect.StringKind:
		return 16
	case protoreflect.BytesKind:
		return 24
	default:
		return 8
	}
}

// list is a list of scalars, which grows by doubling. Numbers may be packed, whatever the
// schema says.
func list(k protoreflect.Kind) field {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return field{element: 2 * scalarSize(k)}
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return field{element: 16, byte: 2}
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return field{element: 16, byte: 4}
	default:
		return field{element: 16, byte: 16}
	}
}

// walk adds the cost of decoding b to *cost, and stops where it exceeds limit or where b
// is nested too deep.
func (s *shape) walk(b []byte, depth int, cost *int64, limit int64) error {
	if depth > protoDepth {
		return deep(protoDepth)
	}
	for at := 0; at < len(b); {
		tag, n := uint64(b[at]), 1
		if tag >= 0x80 { // of more than a byte
			if tag, n = protowire.ConsumeVarint(b[at:]); n < 0 {
				return malformed("protobuf")
			}
		}
		at += n
		f := s.fields.at(tag)
		switch protowire.Type(tag & 7) {
		case protowire.VarintType:
			if _, n = protowire.ConsumeVarint(b[at:]); n < 0 {
				return malformed("protobuf")
			}
			at += n
			*cost += f.element
		case protowire.Fixed64Type:
			at += 8
			*cost += f.element
		case protowire.Fixed32Type:
			at += 4
			*cost += f.element
		case protowire.BytesType:
			if at == len(b) {
				return malformed("protobuf")
			}
			size, n := uint64(b[at]), 1
			if size >= 0x80 {
				size, n = protowire.ConsumeVarint(b[at:])
			}
			if at += n; n < 0 || size > uint64(len(b)-at) { //nolint:gosec // at is at most len(b)
				return malformed("protobuf")
			}
			value := b[at : at+int(size)] //nolint:gosec // at most len(b)
			at += len(value)
			switch {
			case f.message != nil:
				if *cost += f.message.cost(); *cost > limit {
					return large(limit)
				}
				if err := f.message.walk(value, depth+1, cost, limit); err != nil {
					return err
				}
			case f.byte > 0:
				*cost += int64(len(value)) * f.byte
			default:
				*cost += f.element
			}
		default: // groups, which none of the messages has: decoders recurse in them
			return malformed("protobuf")
		}
		if at > len(b) {
			return malformed("protobuf")
		}
		if *cost > limit {
			return large(limit)
		}
	}
	return nil
}
