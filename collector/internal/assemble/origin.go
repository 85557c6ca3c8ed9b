package assemble

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"
)

// resource is a resource that spans of one service instance share. Equal resources
// are stored once, as a copy, so that waiting spans do not keep the request in
// memory with which they arrived.
type resource struct {
	key     string
	value   pcommon.Resource // our copy, never written
	schema  string
	host    *host
	service string
	scopes  map[string]*origin // guarded by origins.mu
}

// origin is the resource and the scope of a span.
type origin struct {
	resource *resource
	scope    pcommon.InstrumentationScope // our copy, never written
	schema   string
}

// host is a machine, and so one clock.
type host struct {
	name   string
	offset atomic.Int64  // ns last added to its times
	traces atomic.Uint64 // in which its times were off
}

// Bounds of the remembered resources, scopes of one resource, and hosts. Beyond
// them the older ones are forgotten; one batch may then hold equal resources twice.
const (
	maxResources = 8192
	maxScopes    = 1024
	maxHosts     = 65536
)

// origins finds the stored resource or scope that is equal to a given one.
type origins struct {
	mu    sync.Mutex
	young map[string]*resource
	old   map[string]*resource
	hosts map[string]*host
	key   []byte
}

func (o *origins) init() {
	o.young, o.hosts = map[string]*resource{}, map[string]*host{}
}

// resource costs one encoding of the resource and one look-up.
func (o *origins) resource(rs ptrace.ResourceSpans) *resource {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.key = appendResource(o.key[:0], rs)
	if r := o.young[string(o.key)]; r != nil {
		return r
	}
	r := o.old[string(o.key)]
	if r == nil {
		r = &resource{
			key: string(o.key), value: pcommon.NewResource(), schema: rs.SchemaUrl(),
			scopes: map[string]*origin{},
		}
		rs.Resource().CopyTo(r.value)
		r.host = o.host(hostName(r))
		if v, ok := r.value.Attributes().Get("service.name"); ok {
			r.service = v.AsString()
		}
	}
	if len(o.young) >= maxResources {
		o.old, o.young = o.young, map[string]*resource{}
	}
	o.young[r.key] = r
	return r
}

func (o *origins) scope(r *resource, ss ptrace.ScopeSpans) *origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	sc := ss.Scope()
	o.key = appendText(o.key[:0], ss.SchemaUrl())
	o.key = appendText(o.key, sc.Name())
	o.key = appendText(o.key, sc.Version())
	o.key = binary.AppendUvarint(o.key, uint64(sc.DroppedAttributesCount()))
	o.key = appendMap(o.key, sc.Attributes())
	if from := r.scopes[string(o.key)]; from != nil {
		return from
	}
	from := &origin{resource: r, scope: pcommon.NewInstrumentationScope(), schema: ss.SchemaUrl()}
	sc.CopyTo(from.scope)
	if len(r.scopes) >= maxScopes {
		clear(r.scopes)
	}
	r.scopes[string(o.key)] = from
	return from
}

// host needs o.mu.
func (o *origins) host(name string) *host {
	h := o.hosts[name]
	if h == nil {
		if len(o.hosts) >= maxHosts {
			clear(o.hosts) // spans that wait keep theirs
		}
		h = &host{name: name}
		o.hosts[name] = h
	}
	return h
}

// hostName identifies the host, and so the clock, of a resource: the host's id or
// name, the node's, else the instance's. A resource that has none of these counts as
// a host of its own.
func hostName(r *resource) string {
	attrs := r.value.Attributes()
	for _, key := range []string{"host.id", "host.name", "k8s.node.uid", "k8s.node.name", "service.instance.id", "k8s.pod.uid", "container.id"} {
		if v, ok := attrs.Get(key); ok && v.Type() == pcommon.ValueTypeStr && v.Str() != "" {
			return key + "=" + v.Str()
		}
	}
	if v, ok := attrs.Get("service.name"); ok {
		return "service.name=" + v.AsString()
	}
	return "unknown"
}

// appendResource encodes a resource; different resources have different encodings.
func appendResource(b []byte, rs ptrace.ResourceSpans) []byte {
	r := rs.Resource()
	b = appendText(b, rs.SchemaUrl())
	b = binary.AppendUvarint(b, uint64(r.DroppedAttributesCount()))
	b = appendMap(b, r.Attributes())
	refs := entity.ResourceEntityRefs(r)
	for i := range refs.Len() {
		e := refs.At(i)
		b = appendText(b, e.SchemaUrl())
		b = appendText(b, e.Type())
		for _, keys := range []pcommon.StringSlice{e.IdKeys(), e.DescriptionKeys()} {
			b = binary.AppendUvarint(b, uint64(keys.Len()))
			for j := range keys.Len() {
				b = appendText(b, keys.At(j))
			}
		}
	}
	return b
}

func appendMap(b []byte, m pcommon.Map) []byte {
	b = binary.AppendUvarint(b, uint64(m.Len()))
	for k, v := range m.All() {
		b = appendValue(appendText(b, k), v)
	}
	return b
}

func appendValue(b []byte, v pcommon.Value) []byte {
	b = append(b, byte(v.Type()))
	switch v.Type() {
	case pcommon.ValueTypeStr:
		b = appendText(b, v.Str())
	case pcommon.ValueTypeBool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case pcommon.ValueTypeInt:
		b = binary.AppendVarint(b, v.Int())
	case pcommon.ValueTypeDouble:
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Double()))
	case pcommon.ValueTypeBytes:
		s := v.Bytes()
		b = binary.AppendUvarint(b, uint64(s.Len()))
		for i := range s.Len() {
			b = append(b, s.At(i))
		}
	case pcommon.ValueTypeMap:
		b = appendMap(b, v.Map())
	case pcommon.ValueTypeSlice:
		s := v.Slice()
		b = binary.AppendUvarint(b, uint64(s.Len()))
		for i := range s.Len() {
			b = appendValue(b, s.At(i))
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
