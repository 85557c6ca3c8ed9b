package lean

import (
	"fmt"
	"reflect"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/wire"
)

// AddEvent adds an event.
func (s *Span) AddEvent(name string, options ...trace.EventOption) {
	r := s.lock()
	if r == nil {
		return
	}
	c := eventOptions(options)
	if c.time.IsZero() {
		// Taken with the span's own clock: events lie between its start and its end.
		r.addEvent(s.p, name, r.wallNow(s.p), c.attributes, nil)
	} else {
		r.addEvent(s.p, name, c.time.UnixNano(), c.attributes, nil)
	}
	s.mu.Unlock()
}

// RecordError adds an exception event; it does not set the status. nil is no error.
func (s *Span) RecordError(err error, options ...trace.EventOption) {
	if err == nil || !s.IsRecording() {
		return
	}
	c := eventOptions(options)
	// Error may call anything, this span too: it is not locked.
	s.addException(typeName(err), err.Error(), c)
}

// addException adds an exception event in the words of the semantic conventions. The attributes
// stand in the SDK's order: the caller's first.
func (s *Span) addException(kind, message string, c eventConfig) {
	exception := [3]attribute.KeyValue{
		semconv.ExceptionType(kind), semconv.ExceptionMessage(s.p.text(message)),
	}
	n := 2
	if c.stack {
		exception[2] = semconv.ExceptionStacktrace(s.p.text(stackTrace()))
		n = 3
	}
	r := s.lock()
	if r == nil {
		return
	}
	at := c.time.UnixNano()
	if c.time.IsZero() {
		at = r.wallNow(s.p)
	}
	r.addEvent(s.p, semconv.ExceptionEventName, at, c.attributes, exception[:n])
	s.mu.Unlock()
}

// wallNow is the present, by the clock that measures the span.
func (r *record) wallNow(p *TracerProvider) int64 {
	now := p.clock.monotonic()
	if !r.given.IsZero() {
		return p.clock.wall(now)
	}
	return r.startWall + now - r.startMono
}

// endAt is the end of a span that was not given one. From a start that the caller gave, the SDK
// counts with the caller's clock, wherever that leads; so does this.
func (r *record) endAt(now int64) int64 {
	if !r.given.IsZero() {
		return r.given.Add(time.Since(r.given)).UnixNano()
	}
	return r.startWall + now - r.startMono
}

// addEvent writes an event. Over the limit, the oldest goes. As in the SDK, attributes of events
// keep duplicate keys, and their values are not cut to a length.
func (r *record) addEvent(p *TracerProvider, name string, at int64, attrs, more []attribute.KeyValue) {
	limit := p.limits.EventCountLimit
	if limit == 0 {
		r.droppedEvents++
		return
	}
	if limit > 0 && len(r.events) == limit {
		r.evict(&r.events)
		r.droppedEvents++
	}
	tail := len(r.buf)
	b, start := wire.Open(r.buf, wire.SpanEvent, 1)
	b = wire.AppendFixed64(b, wire.EventTime, notNegative(at))
	b = wire.AppendBytes(b, wire.EventName, wire.Text(p.text(name)))
	w := fewAttributes{p: p, tag: wire.EventAttribute, limit: p.limits.AttributePerEventCountLimit}
	b = w.append(b, attrs)
	b = w.append(b, more)
	b = appendCount(b, wire.EventDroppedAttributes, w.dropped)
	r.buf = wire.Close(b, start, 1)
	r.events = append(r.events, extent{tail, len(r.buf)})
}

// AddLink adds a link. One without identity, attributes and trace state says nothing and is
// ignored.
func (s *Span) AddLink(link trace.Link) {
	if r := s.lock(); r != nil {
		r.addLink(s.p, &link)
		s.mu.Unlock()
	}
}

// addLink writes a link. The official exporter leaves a link's trace state away, and so does this.
func (r *record) addLink(p *TracerProvider, link *trace.Link) {
	sc := link.SpanContext
	if !sc.IsValid() && len(link.Attributes) == 0 && sc.TraceState().Len() == 0 {
		return
	}
	limit := p.limits.LinkCountLimit
	if limit == 0 {
		r.droppedLinks++
		return
	}
	if limit > 0 && len(r.links) == limit {
		r.evict(&r.links)
		r.droppedLinks++
	}
	tail := len(r.buf)
	traceID, spanID := sc.TraceID(), sc.SpanID()
	b, start := wire.Open(r.buf, wire.SpanLink, 1)
	b = wire.AppendBytes(b, wire.LinkTraceID, traceID[:])
	b = wire.AppendBytes(b, wire.LinkSpanID, spanID[:])
	w := fewAttributes{p: p, tag: wire.LinkAttribute, limit: p.limits.AttributePerLinkCountLimit}
	b = w.append(b, link.Attributes)
	b = appendCount(b, wire.LinkDroppedAttributes, w.dropped)
	b = wire.AppendFixed32(b, wire.LinkFlags, spanFlags(sc.TraceFlags(), sc.IsRemote()))
	r.buf = wire.Close(b, start, 1)
	r.links = append(r.links, extent{tail, len(r.buf)})
}

// spanFlags are OTLP's: the W3C flags, that it is known whether the parent is remote (bit 8), and
// whether it is (bit 9).
func spanFlags(f trace.TraceFlags, remote bool) uint32 {
	flags := uint32(f) | 1<<8
	if remote {
		flags |= 1 << 9
	}
	return flags
}

// fewAttributes writes the attributes of an event or a link up to a limit.
type fewAttributes struct {
	p              *TracerProvider
	tag            byte
	limit          int
	count, dropped int
}

func (w *fewAttributes) append(b []byte, kvs []attribute.KeyValue) []byte {
	lim := valueLimits{depth: w.p.limits.AttributeValueDepthLimit, length: -1}
	for i := range kvs {
		kv := &kvs[i]
		if w.p.redactor != nil {
			shown, ok := w.p.redactor.Attribute(*kv)
			if !ok {
				continue
			}
			kv = &shown
		}
		if w.limit >= 0 && w.count >= w.limit {
			w.dropped++
			continue
		}
		w.count++
		b = appendKeyValue(b, w.tag, kv, lim)
	}
	return b
}

// eventConfig is what event options say.
type eventConfig struct {
	time       time.Time
	attributes []attribute.KeyValue
	stack      bool
}

// eventOptions reads options without copying attributes where they come in one option.
func eventOptions(options []trace.EventOption) eventConfig {
	switch len(options) {
	case 0:
		return eventConfig{}
	case 1:
		if kvs, ok := attributesOf(options[0]); ok {
			return eventConfig{attributes: kvs}
		}
	}
	c := trace.NewEventConfig(options...)
	return eventConfig{attributes: c.Attributes(), stack: c.StackTrace(), time: c.Timestamp()}
}

// typeName is exception.type: with the package's path for a named type.
func typeName(v any) string {
	t := reflect.TypeOf(v)
	if t.PkgPath() == "" && t.Name() == "" {
		return t.String()
	}
	return fmt.Sprintf("%s.%s", t.PkgPath(), t.Name())
}

// stackTrace is this goroutine's, cut at 2048 bytes like the SDK's.
func stackTrace() string {
	buf := make([]byte, 2048)
	return string(buf[:runtime.Stack(buf, false)])
}
