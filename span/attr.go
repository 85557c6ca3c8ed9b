package span

import "strconv"

// AttrType tells which field of an Attr holds its value.
type AttrType uint8

// The attribute types that Tare produces.
const (
	StringType AttrType = iota
	IntType
	BoolType
)

// Attr is an attribute. A struct instead of an interface, so that a slice of
// them costs one allocation.
type Attr struct {
	Key  string // UTF-8, usually a constant
	Str  string // StringType
	Num  int64  // IntType; BoolType: 0 or 1
	Type AttrType
}

// String makes a string attribute.
func String(key, value string) Attr { return Attr{Key: key, Str: value, Type: StringType} }

// Int makes an integer attribute.
func Int(key string, value int64) Attr { return Attr{Key: key, Num: value, Type: IntType} }

// Bool makes a boolean attribute.
func Bool(key string, value bool) Attr {
	a := Attr{Key: key, Type: BoolType}
	if value {
		a.Num = 1
	}
	return a
}

// Text is the value as a person would read it.
func (a Attr) Text() string {
	switch a.Type {
	case IntType:
		return strconv.FormatInt(a.Num, 10)
	case BoolType:
		return strconv.FormatBool(a.Num != 0)
	default:
		return a.Str
	}
}
