//go:build cgo

package hosttest

// With -trimpath, go takes what cgo made of the same files in another directory, with that one's paths in
// it, unless the flags name the directory.

/*
#cgo CFLAGS: -I${SRCDIR}/..
#include <linux/types.h>
#include <stdbool.h>
#include <string.h>
#include "tag.h"
#include "payload.h"
#include "tls.h"
#include "bucket.h"

static int tag_encode_(void *o, void *c, unsigned offset) { return tag_encode(o, c, offset); }
static unsigned long long tag_derived_(unsigned long long lo) { return tag_derived(lo); }
static int tag_decode_(const void *o, void *c, __u32 *offset) { return tag_decode(o, c, offset); }
static int streams_encode_(void *o, const void *s) { return streams_encode(o, s); }
static unsigned streams_parameter_(unsigned n, unsigned others) { return streams_parameter(n, others); }
static struct tag_codes streams_codes_(const void *s) { return streams_codes(s); }
static int streams_add_(void *s, void *c, unsigned stream) { return streams_add(s, c, stream); }
static unsigned streams_bit_(const void *s, void *c) { return streams_bit(s, c); }
static int streams_decode_(const void *o, void *s) { return streams_decode(o, s); }
static void ip_read_(const void *a, __u32 size, int v6, void *said) { ip_read(a, size, v6, said); }
static unsigned ip_write_(void *a, __u32 size, int v6, __u8 next) { return ip_write(a, size, v6, next); }
static int payload_kind_(const void *p, unsigned len) { return payload_kind(p, len); }
static int status_(const void *p) { return payload_status_class(p); }
static int redis_(const void *p) { return payload_is_redis(p); }
static int memcached_(const void *p) { return payload_is_memcached(p); }
static int redis_error_(const void *p) { return payload_is_redis_error(p); }
static int memcached_error_(const void *p) { return payload_is_memcached_error(p); }
static unsigned bucket_(__u64 ns) { return bucket_of(ns); }
static int http2_(const void *p, unsigned len) { return payload_is_http2_frame(p, len); }
static int length_key_(const void *p) { return payload_is_length_key(p); }
static unsigned length_(const void *p) { return payload_length(p); }
static int tls_(void *t, const void *h) { return tls_record(t, h); }
static int traceparent_(const void *p, void *out) { return payload_traceparent(p, out); }
static int key_(const void *p) { return payload_is_traceparent_key(p); }

// What traceparent.bpf.h has of the kernel side, on the host.
typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
#define __noinline static
#define INLINE static inline
#define SCRATCH 1024
#define AT_MOST(n, most) ((n) < (most) ? (n) : (most))
#define bpf_map_lookup_elem(map, key) (map)
#define bpf_probe_read_user(to, len, from) (memcpy(to, from, len), 0)
static __thread struct scratch { u8 bytes[SCRATCH + 128]; struct traceparent_walk walk; } scratch;
struct bytes { const void *data; u32 len, size; };
#include "../traceparent.bpf.h"

static int find_traceparent_(const void *p, unsigned len, void *out)
{
	struct bytes b = {.data = p, .len = len, .size = len};
	memset(scratch.bytes, '\n', sizeof(scratch.bytes)); // what another request has left
	return find_traceparent(&b, out);
}
*/
import "C"

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"
)

// Context is a tag's content.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// Results of DecodeTag.
const (
	TagOK        = int(C.TAG_OK)
	TagUnsampled = int(C.TAG_UNSAMPLED)
	TagMalformed = int(C.TAG_MALFORMED)
)

// Kinds of payload.
const (
	Other        = int(C.PAYLOAD_OTHER)
	HTTPRequest  = int(C.PAYLOAD_HTTP_REQUEST)
	HTTPResponse = int(C.PAYLOAD_HTTP_RESPONSE)
	HTTPInterim  = int(C.PAYLOAD_HTTP_INTERIM)
	HTTPSwitch   = int(C.PAYLOAD_HTTP_SWITCH)
	TLSHandshake = int(C.PAYLOAD_TLS_HANDSHAKE)
	TLSData      = int(C.PAYLOAD_TLS_DATA)
	HTTPPiece    = int(C.PAYLOAD_HTTP_PIECE)
	HTTP2        = int(C.PAYLOAD_HTTP2)
	FastCGI      = int(C.PAYLOAD_FASTCGI)
	Goodbye      = int(C.PAYLOAD_GOODBYE)
)

// ContentLength reads a header line; ok reports whether it is Content-Length's.
func ContentLength(line []byte) (n uint32, ok bool) {
	var p [C.PAYLOAD_LENGTH_KEY + 10]byte
	copy(p[:], line)
	if C.length_key_(unsafe.Pointer(&p)) == 0 {
		return 0, false
	}
	return uint32(C.length_(unsafe.Pointer(&p[C.PAYLOAD_LENGTH_KEY]))), true
}

// HTTP2Frame reports whether a message begins with a frame of HTTP/2.
func HTTP2Frame(b []byte) bool {
	var p [12]byte
	n := copy(p[:], b)
	return C.http2_(unsafe.Pointer(&p), C.uint(n)) != 0
}

// Results of HandshakeEnd.
const (
	NoRequest = -1 // all of it belongs to the handshake
	Lost      = -2 // not what a client sends over TLS
)

// HandshakeEnd finds where, in what a client sends over TLS, its first request
// begins.
func HandshakeEnd(b []byte) int {
	var t C.struct_tls
	for at := 0; at+C.TLS_HEADER <= len(b); {
		var h [C.TLS_HEADER]byte
		copy(h[:], b[at:])
		switch C.tls_(unsafe.Pointer(&t), unsafe.Pointer(&h)) {
		case C.TLS_REQUEST:
			return at
		case C.TLS_LOST:
			return Lost
		}
		at += C.TLS_HEADER + int(t.skip)
	}
	return NoRequest
}

// TagContext is what a tag says.
type TagContext struct {
	Context
	Flags uint32 // FlagRetro
	Pad   uint32
}

// FlagRetro is the flag of retro requests.
const FlagRetro = uint32(C.TAG_RETRO)

// Derive gives a context of a retro request the trace id that it has where it begins.
func (c *TagContext) Derive() {
	lo := binary.NativeEndian.Uint64(c.TraceID[8:])
	binary.NativeEndian.PutUint64(c.TraceID[:8], uint64(C.tag_derived_(C.ulonglong(lo))))
	c.Flags = FlagRetro
}

// EncodeTag returns the option as it goes on the wire.
func EncodeTag(c TagContext, offset uint32) []byte {
	var o [28]byte
	n := C.tag_encode_(unsafe.Pointer(&o), unsafe.Pointer(&c), C.uint(offset))
	return o[:n]
}

// DecodeTag reads an option; bytes beyond those given are zero.
func DecodeTag(option []byte) (c TagContext, offset uint32, result int) {
	var o [28]byte
	copy(o[:], option)
	var off C.__u32
	r := C.tag_decode_(unsafe.Pointer(&o), unsafe.Pointer(&c), &off)
	return c, uint32(off), int(r)
}

// Streams are those that a segment names, from the oldest on: so many, or those
// of the codes.
type Streams struct {
	First, Count uint32
	Codes        [32]byte // 20 of them go on the wire
}

// CodeStreams are as many of the streams, in order, as a segment can name by codes.
func CodeStreams(streams []uint32) Streams {
	first, n := streams[0], uint32(len(streams))
	all := (streams[n-1]-first)/2 + 1
	s := Streams{First: first}
	s.Codes[0] = byte(C.streams_parameter_(C.uint(n), C.uint(all-n)))
	c := C.streams_codes_(unsafe.Pointer(&s))
	for _, stream := range streams {
		if C.streams_add_(unsafe.Pointer(&s), unsafe.Pointer(&c), C.uint(stream)) == 0 {
			break
		}
	}
	return s
}

// Coded are the streams of the codes.
func (s Streams) Coded() (streams []uint32) {
	c := C.streams_codes_(unsafe.Pointer(&s))
	for range 8 * 19 {
		if stream := uint32(C.streams_bit_(unsafe.Pointer(&s), unsafe.Pointer(&c))); stream != 0 {
			streams = append(streams, stream)
		}
	}
	return streams
}

// EncodeStreams returns the option as it goes on the wire.
func EncodeStreams(s Streams) []byte {
	var o [28]byte
	n := C.streams_encode_(unsafe.Pointer(&o), unsafe.Pointer(&s))
	return o[:n]
}

// DecodeStreams reads an option; bytes beyond those given are zero.
func DecodeStreams(option []byte) (s Streams, result int) {
	var o [28]byte
	copy(o[:], option)
	r := C.streams_decode_(unsafe.Pointer(&o), unsafe.Pointer(&s))
	return s, int(r)
}

// Said is what an option of an IP header says.
type Said struct {
	TagContext
	Offset uint32
	Tag    int // 1 + a result of DecodeTag; 0: none
	Mark   int // its length; 0: none
	Name   string
}

// ReadIP reads the options of an IPv4 header, or an IPv6 destination options header.
func ReadIP(options []byte, v6 bool) Said { return readIP(options, v6, 0) }

// readIPBehind is ReadIP of options with other bytes behind them.
func readIPBehind(options []byte, v6 bool) Said { return readIP(options, v6, 0x55) }

func readIP(options []byte, v6 bool, behind byte) Said {
	var a C.struct_ip_area
	var s C.struct_ip_said
	for i := range (*[C.sizeof_struct_ip_area]byte)(unsafe.Pointer(&a)) {
		(*[C.sizeof_struct_ip_area]byte)(unsafe.Pointer(&a))[i] = behind
	}
	copy((*[64]byte)(unsafe.Pointer(&a))[:], options)
	C.ip_read_(unsafe.Pointer(&a), C.__u32(len(options)), flag(v6), unsafe.Pointer(&s))
	said := Said{Offset: uint32(s.offset), Tag: int(s.tag), Mark: int(s.mark)}
	said.TagContext = *(*TagContext)(unsafe.Pointer(&s.ctx))
	said.Name = strings.TrimRight(string((*[C.MARK_NAME]byte)(unsafe.Pointer(&s.name))[:]), "\x00")
	return said
}

// WriteIP makes options of an IPv4 header, or an IPv6 destination options header.
func WriteIP(data []byte, v6 bool, next byte) []byte {
	var a C.struct_ip_area
	bytes := (*[64]byte)(unsafe.Pointer(&a))
	at := 2
	if v6 {
		at = 4
	}
	copy(bytes[at:], data)
	n := C.ip_write_(unsafe.Pointer(&a), C.__u32(len(data)), flag(v6), C.__u8(next))
	return slices.Clone(bytes[:n])
}

func flag(v bool) C.int {
	if v {
		return 1
	}
	return 0
}

// PayloadKind classifies the beginning of a message.
func PayloadKind(b []byte) int {
	var p [12]byte
	n := copy(p[:], b)
	return int(C.payload_kind_(unsafe.Pointer(&p), C.uint(n)))
}

// Traceparent reads the value of a traceparent header.
func Traceparent(value []byte) (c Context, sampled, ok bool) {
	var p [64]byte
	var out struct {
		c       Context
		sampled uint8
	}
	copy(p[:], value)
	ok = C.traceparent_(unsafe.Pointer(&p), unsafe.Pointer(&out)) != 0
	return out.c, out.sampled != 0, ok
}

// FindTraceparent reads the traceparent of a request, as the kernel side does.
func FindTraceparent(request []byte) (c Context, sampled, ok bool) {
	var out struct {
		c       Context
		sampled uint8
	}
	if len(request) == 0 {
		return c, false, false
	}
	ok = C.find_traceparent_(unsafe.Pointer(&request[0]), C.uint(len(request)), unsafe.Pointer(&out)) != 0
	return out.c, out.sampled != 0, ok
}

// IsTraceparentKey reports whether a header line begins with "traceparent:".
func IsTraceparentKey(line []byte) bool {
	var p [12]byte
	copy(p[:], line)
	return C.key_(unsafe.Pointer(&p)) != 0
}

// Measuring is what the kernel side makes of the beginning of a message where
// it measures requests.
type Measuring struct {
	StatusClass                                  int // of an HTTP response, 0: not to be read
	Redis, Memcached, RedisError, MemcachedError bool
}

// Measure looks at the beginning of a message as the kernel side does.
func Measure(b []byte) Measuring {
	var head [12]byte
	copy(head[:], b)
	p := unsafe.Pointer(&head)
	return Measuring{
		int(C.status_(p)), C.redis_(p) != 0, C.memcached_(p) != 0, C.redis_error_(p) != 0, C.memcached_error_(p) != 0,
	}
}

// Buckets is how many buckets the histogram of durations has.
const Buckets = int(C.BUCKETS)

// Bucket is the one that a duration in ns belongs to.
func Bucket(ns uint64) int { return int(C.bucket_(C.__u64(ns))) }
