package lean

import (
	"bytes"
	"runtime/trace"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/wire"
)

// record holds the fields of OTLP's Span message that a span has written so far, in the order in
// which they became known (protobuf takes any), in one reused buffer. A span has one from its start
// to its end.
type record struct {
	buf    []byte
	attrs  []extent // where in buf, in order
	hashes []byte   // of the attributes' keys
	filter uint64   // which of the 64 classes of hashes occur
	events []extent
	links  []extent

	droppedAttrs  int
	droppedEvents int
	droppedLinks  int

	name        string // written at the end: it may change
	description string
	status      codes.Code
	startWall   int64     // ns since 1970
	startMono   int64     // the clock's monotonic time of startWall
	given       time.Time // the start, if the caller gave it
	remote      bool      // the parent
	localRoot   bool      // no parent, or a remote one
	kind        api.SpanKind

	task  *trace.Task // of runtime/trace, while that is running
	shard *shard      // where spans of this processor went last
	spare []byte
	kvs   []attribute.KeyValue // for rules that look at attributes
}

// extent is a part of record.buf.
type extent struct{ start, end int }

// Buffers that grew beyond this for one large span are not reused.
const (
	maxKeptRecord  = 16 << 10
	maxKeptExtents = 256
)

// reset makes r ready for another span; false: r has grown too large to be kept.
func (r *record) reset() bool {
	if cap(r.buf) > maxKeptRecord || cap(r.attrs)+cap(r.events)+cap(r.links) > maxKeptExtents {
		return false
	}
	r.buf, r.attrs, r.hashes = r.buf[:0], r.attrs[:0], r.hashes[:0]
	r.events, r.links = r.events[:0], r.links[:0]
	r.filter = 0
	r.droppedAttrs, r.droppedEvents, r.droppedLinks = 0, 0, 0
	r.name, r.description, r.status = "", "", codes.Unset
	r.task, r.given = nil, time.Time{}
	return true
}

// place returns where an attribute belongs: the index of an earlier attribute with the same key, or
// -1 for the end. false means that the limit is reached; the attribute is counted as dropped.
func (r *record) place(key string, limit int) (at int, ok bool) {
	if key == "" {
		r.droppedAttrs++ // the SDK drops what is not Valid
		return 0, false
	}
	at = r.find(key)
	if at < 0 && limit >= 0 && len(r.attrs) >= limit {
		r.droppedAttrs++
		return 0, false
	}
	return at, true
}

// find returns the attribute with this key, or -1. Keys rarely repeat: the filter answers mostly.
func (r *record) find(key string) int {
	h := hashKey(key)
	if r.filter&(1<<(h&63)) == 0 {
		return -1
	}
	key = wire.Text(key)
	for from := 0; ; {
		i := bytes.IndexByte(r.hashes[from:], h)
		if i < 0 {
			return -1
		}
		from += i
		if string(r.key(r.attrs[from])) == key {
			return from
		}
		from++
	}
}

// key reads the key out of a written attribute.
func (r *record) key(e extent) []byte {
	field, _ := cutField(r.buf[e.start:e.end])
	key, _ := cutField(field)
	return key
}

func hashKey(key string) byte {
	n := len(key)
	return byte(n) ^ key[n-1]*3 ^ key[n/2]*5 ^ key[n*3/4]*11 ^ key[0]*7
}

// settle registers the attribute that was written to buf from tail on, at the index that place gave.
func (r *record) settle(at, tail int, key string) {
	if at >= 0 {
		r.replace(&r.attrs[at], tail)
		return
	}
	h := hashKey(key)
	r.filter |= 1 << (h & 63)
	r.hashes = append(r.hashes, h)
	r.attrs = append(r.attrs, extent{tail, len(r.buf)})
}

// replace moves what was written from tail into the place of an older field.
func (r *record) replace(e *extent, tail int) {
	fresh := r.buf[tail:]
	if len(fresh) == e.end-e.start {
		copy(r.buf[e.start:], fresh)
		r.buf = r.buf[:tail]
		return
	}
	r.spare = append(r.spare[:0], fresh...)
	delta := len(r.spare) - (e.end - e.start)
	copy(r.buf[e.end+delta:], r.buf[e.end:tail])
	copy(r.buf[e.start:], r.spare)
	r.buf = r.buf[:tail+delta]
	r.shift(e.end, delta)
	e.end += delta
}

// shift follows a move of everything from `from` on.
func (r *record) shift(from, delta int) {
	for _, list := range [][]extent{r.attrs, r.events, r.links} {
		for i := range list {
			if list[i].start >= from {
				list[i].start += delta
				list[i].end += delta
			}
		}
	}
}

// evict removes the oldest of a list of events or links.
func (r *record) evict(list *[]extent) {
	first := (*list)[0]
	r.buf = append(r.buf[:first.start], r.buf[first.end:]...)
	r.shift(first.end, first.start-first.end)
	*list = (*list)[:copy(*list, (*list)[1:])]
}
