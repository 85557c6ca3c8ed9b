package path

import (
	"encoding/binary"
	"net/netip"
)

// Flags of TCP, and what of its options is read or written here.
const (
	flagSYN = 1 << 1
	flagRST = 1 << 2
	flagACK = 1 << 4

	kindEnd        = 0
	kindNOP        = 1
	kindMSS        = 2
	kindTimestamps = 8
	kindTag        = 25 // docs/wire.md

	tagLen     = 26
	headerLen  = 20
	optionsMax = 40
)

// segment is a TCP segment; one that is sent has no data.
type segment struct {
	src, dst uint16
	seq, ack uint32
	flags    byte
	options  []byte
	whole    bool // all of the header was there
	data     int  // bytes, as many as were there
}

// encode returns its bytes, with the checksum that belongs to the addresses.
func (s *segment) encode(from, to netip.Addr) []byte {
	options := s.options
	for len(options)%4 != 0 {
		options = append(options[:len(options):len(options)], kindNOP)
	}
	b := make([]byte, headerLen+len(options))
	binary.BigEndian.PutUint16(b[0:], s.src)
	binary.BigEndian.PutUint16(b[2:], s.dst)
	binary.BigEndian.PutUint32(b[4:], s.seq)
	binary.BigEndian.PutUint32(b[8:], s.ack)
	b[12] = byte(len(b)/4) << 4
	b[13] = s.flags
	binary.BigEndian.PutUint16(b[14:], 1024) // window
	copy(b[headerLen:], options)
	binary.BigEndian.PutUint16(b[16:], checksum(b, from, to))
	return b
}

// checksum is that of RFC 9293, section 3.1, over the pseudo header and the segment.
func checksum(b []byte, from, to netip.Addr) uint16 {
	var sum uint32
	add := func(b []byte) {
		for i := 0; i < len(b); i += 2 {
			sum += uint32(b[i]) << 8
			if i+1 < len(b) {
				sum += uint32(b[i+1])
			}
		}
	}
	add(from.AsSlice())
	add(to.AsSlice())
	sum += protocolTCP + uint32(len(b))
	add(b)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

const protocolTCP = 6

// parseSegment reads a segment that may be cut off: of what a router tells of a packet there
// are 8 bytes at least, its ports and its sequence number.
func parseSegment(b []byte) (s segment, ok bool) {
	if len(b) < 8 {
		return s, false
	}
	s.src, s.dst, s.seq = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint32(b[4:])
	if len(b) < headerLen {
		return s, true
	}
	s.ack, s.flags = binary.BigEndian.Uint32(b[8:]), b[13]
	size := int(b[12]>>4) * 4
	if size < headerLen {
		return s, false
	}
	s.whole = size <= len(b)
	s.options = b[headerLen:min(size, len(b))]
	s.data = len(b) - min(size, len(b))
	return s, true
}

// option is the first of a kind, its kind and length included.
func (s *segment) option(kind byte) (option []byte, ok bool) {
	for b := s.options; len(b) > 0 && b[0] != kindEnd; {
		if b[0] == kindNOP {
			b = b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			break
		}
		if b[0] == kind {
			return b[:b[1]], true
		}
		b = b[b[1]:]
	}
	return nil, false
}

// timestamps are those of RFC 7323.
func (s *segment) timestamps() (value, echo uint32, ok bool) {
	o, ok := s.option(kindTimestamps)
	if !ok || len(o) != 10 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(o[2:]), binary.BigEndian.Uint32(o[6:]), true
}

// probeTag is as large as a request's tag and of its kind, but means nothing: a trace id of zeroes is ignored, and
// counted as malformed, by an agent that reads it. The number tells probes apart.
func probeTag(n byte) []byte {
	tag := make([]byte, tagLen)
	tag[0], tag[1] = kindTag, tagLen
	copy(tag[18:], "TAREPATH")
	tag[25] = n
	return tag
}

// isProbeTag reports whether it arrived as it was sent.
func isProbeTag(o []byte) bool {
	return len(o) == tagLen && string(o[18:25]) == "TAREPAT"
}
