package store

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// cursor is a place in the order of answers: traces by their first start, the
// newest first, and by id where that is equal. What comes after it does not
// depend on what is newer, so that pages are stable while traces come in. A
// trace moves, towards the end, only when a late span is earlier than its others.
type cursor struct {
	from uint64 // ns
	id   pcommon.TraceID
}

// after reports whether c comes after d in the order of answers.
func (c cursor) after(d cursor) bool {
	if c.from != d.from {
		return c.from < d.from
	}
	return bytes.Compare(c.id[:], d.id[:]) < 0
}

// notAfter is the cursor behind which everything not newer than from comes.
func notAfter(from uint64) cursor {
	c := cursor{from: from}
	for i := range c.id {
		c.id[i] = 0xff
	}
	return c
}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, c.from), c.id[:]...))
}

// parseCursor reads Query.After; without one everything comes after.
func parseCursor(s string) (cursor, error) {
	if s == "" {
		return notAfter(1<<64 - 1), nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 24 {
		return cursor{}, fmt.Errorf("%w: %q does not say where to go on: use what the page before gave", ErrInvalid, clip([]byte(s)))
	}
	return cursor{binary.BigEndian.Uint64(b), pcommon.TraceID(b[8:])}, nil
}
