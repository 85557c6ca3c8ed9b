package store

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/s2"

	"github.com/tare-trace/tare/otel/wire/fields"
)

// group is a resource and a scope of it, whose spans stand together: the bytes
// of ResourceSpans without its scopes, and of ScopeSpans without its spans.
type group struct {
	resource []byte
	scope    []byte
}

// encodeGroups encodes the groups of a chunk; resources are shared.
func encodeGroups(groups []group) (compressed []byte, rawSize int) {
	index := map[string]int{}
	var resources, list []byte
	for _, g := range groups {
		i, ok := index[string(g.resource)]
		if !ok {
			i = len(index)
			index[string(g.resource)] = i
			resources = appendBytes(resources, g.resource)
		}
		list = appendBytes(binary.AppendUvarint(list, uint64(i)), g.scope)
	}
	raw := binary.AppendUvarint(nil, uint64(len(index)))
	raw = append(raw, resources...)
	raw = binary.AppendUvarint(raw, uint64(len(groups)))
	raw = append(raw, list...)
	return s2.Encode(nil, raw), len(raw)
}

func parseGroups(b []byte, limit uint64) ([]group, error) {
	raw, err := decompress(b, limit)
	if err != nil {
		return nil, err
	}
	d := decoder{b: raw}
	resources := make([][]byte, d.count(1))
	for i := range resources {
		resources[i] = d.bytes()
	}
	groups := make([]group, d.count(2))
	for i := range groups {
		r := d.uint32()
		if int(r) >= len(resources) {
			return nil, corrupt("scope of resource %d of %d", r, len(resources))
		}
		groups[i] = group{resources[r], d.bytes()}
	}
	return groups, d.done("resources of a chunk")
}

// decompress undoes s2. limit is what the chunk says of its size, so that a
// wrong length cannot take all memory.
func decompress(b []byte, limit uint64) ([]byte, error) {
	n, err := s2.DecodedLen(b)
	if err != nil || uint64(n) > limit {
		return nil, corrupt("a compressed block of %d bytes", len(b))
	}
	raw, err := s2.Decode(make([]byte, n), b)
	if err != nil {
		return nil, corrupt("a compressed block: %v", err)
	}
	return raw, nil
}

// decompressed is how large b says it is when decompressed, in bytes; 0 if it cannot be.
func decompressed(b []byte) int64 {
	n, err := s2.DecodedLen(b)
	if err != nil {
		return 0
	}
	return int64(n)
}

// A record is what a chunk has of one trace: runs of spans of one group, each
// as group, length, and the spans as they stand in a ScopeSpans.

// eachRun calls f for the runs of a record.
func eachRun(record []byte, groups []group, f func(g uint32, spans []byte) error) error {
	d := decoder{b: record}
	for len(d.b) > 0 {
		g := d.uint32()
		spans := d.bytes()
		if d.bad || int(g) >= len(groups) {
			return corrupt("record of a trace")
		}
		if err := f(g, spans); err != nil {
			return err
		}
	}
	return nil
}

// eachField calls f for the fields of a message.
func eachField(b []byte, f fields.Func) error { return wireError(fields.Each(b, f)) }

// eachAlong calls f for what the tags lead to in a message.
func eachAlong(b []byte, f func(content []byte) error, tags ...uint64) error {
	return wireError(fields.Along(b, f, tags...))
}

func wireError(err error) error {
	if errors.Is(err, fields.ErrMalformed) {
		return errWire
	}
	return err
}

var errWire = corrupt("spans are not valid OTLP")
