package limit

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/span/text"
)

// What was cut: indices of a count, bits of a mark.
const (
	names = iota
	keys
	values
	attributes
	events
	links
	states
	whats
)

// what are their names, in tare.cut and in the metric.
var what = [whats]string{"name", "key", "value", "attributes", "events", "links", "tracestate"}

// cutter cuts the telemetry of one request in place.
type cutter struct {
	*Limits
	counts [whats]int
	bits   uint8 // what was cut since the last mark
}

func (c *cutter) add(what, n int) {
	c.counts[what] += n
	c.bits |= 1 << what
}

// mark says on m what was cut since the last mark.
func (c *cutter) mark(m pcommon.Map) {
	if c.bits == 0 {
		return
	}
	var all []string
	for i, w := range what {
		if c.bits&(1<<i) != 0 {
			all = append(all, w)
		}
	}
	c.bits = 0
	m.PutStr(semconv.Cut, strings.Join(all, ","))
}

func (c *cutter) name(s string, set func(string)) {
	if len(s) > c.Name {
		c.add(names, 1)
		set(text.Name(s, c.Name))
	}
}

func (c *cutter) text(s string, most int, set func(string)) {
	if len(s) > most {
		c.add(values, 1)
		set(text.Value(s, most))
	}
}

func (c *cutter) state(s pcommon.TraceState) {
	if raw := s.AsRaw(); len(raw) > text.MaxState {
		c.add(states, 1)
		s.FromRaw(text.State(raw, text.MaxState))
	}
}

// own is how many of Tare's own attributes a span may have beyond the others: a collector adds some.
const own = 32

// attributes cuts attributes, and returns how many it dropped.
func (c *cutter) attributes(m pcommon.Map) (dropped uint32) {
	if !c.exceeded(m) {
		return 0
	}
	kept := 0
	m.RemoveIf(func(key string, v pcommon.Value) bool {
		switch {
		case len(key) > c.Key:
			c.add(keys, 1)
		case kept >= c.Attributes && !(kept < c.Attributes+own && strings.HasPrefix(key, "tare.")) && !identifies(key):
			c.add(attributes, 1)
		default:
			kept++
			c.value(key, v)
			return false
		}
		dropped++
		return true
	})
	return dropped
}

// counted has attributes, and OTLP's count of those that were dropped.
type counted interface {
	Attributes() pcommon.Map
	DroppedAttributesCount() uint32
	SetDroppedAttributesCount(uint32)
}

// cutCounted cuts the attributes of o, and adds what was dropped to its count.
func cutCounted[T counted](c *cutter, o T) {
	if n := c.attributes(o.Attributes()); n > 0 {
		o.SetDroppedAttributesCount(o.DroppedAttributesCount() + n)
	}
}

// exceeded is a quick no for almost all attributes.
func (c *cutter) exceeded(m pcommon.Map) bool {
	if m.Len() > c.Attributes {
		return true
	}
	for key, v := range m.All() {
		if len(key) > c.Key {
			return true
		}
		switch v.Type() {
		case pcommon.ValueTypeStr:
			if n := len(v.Str()); n > c.Name && (n > c.Value || isName(key)) {
				return true
			}
		case pcommon.ValueTypeBytes, pcommon.ValueTypeSlice, pcommon.ValueTypeMap:
			if c.size(v) > c.Value {
				return true
			}
		}
	}
	return false
}

// size is what nested counts of a value; more than any limit if one of its keys is too long.
func (c *cutter) size(v pcommon.Value) int {
	n := 0
	switch v.Type() {
	case pcommon.ValueTypeStr:
		n = len(v.Str())
	case pcommon.ValueTypeBytes:
		n = v.Bytes().Len()
	case pcommon.ValueTypeSlice:
		for _, e := range v.Slice().All() {
			n += element + c.size(e)
		}
	case pcommon.ValueTypeMap:
		for key, e := range v.Map().All() {
			if len(key) > c.Key {
				return math.MaxInt32
			}
			n += element + len(key) + c.size(e)
		}
	}
	return n
}

// identifies reports whether a resource's attribute is never dropped because there are too many.
func identifies(key string) bool {
	return key == "service.name" || key == "service.namespace" || key == "service.instance.id"
}

// isName reports whether the value of an attribute becomes a name: of a service, a host, a peer or an operation.
func isName(key string) bool {
	switch key {
	case "service.name", "service.namespace", "service.instance.id", "service.version", "deployment.environment.name", "deployment.environment",
		"host.id", "host.name", "k8s.node.uid", "k8s.node.name", "k8s.pod.uid", "k8s.namespace.name", "container.id",
		"peer.service", "db.system.name", "db.system", "server.address", "net.peer.name", "server.port", "messaging.destination.name",
		"network.peer.address", "network.local.address", "http.route", "url.template", "http.request.method", "http.method":
		return true
	}
	return strings.HasPrefix(key, "tare.")
}

// value cuts the value of an attribute.
func (c *cutter) value(key string, v pcommon.Value) {
	if v.Type() == pcommon.ValueTypeStr && len(v.Str()) > c.Name && isName(key) {
		c.name(v.Str(), v.SetStr)
		return
	}
	left := c.Value
	c.nested(v, &left)
}

// element is what an element of an array, or an entry of a map, counts beside its texts.
const element = 16

// nested cuts a value, of which left bytes may be left.
func (c *cutter) nested(v pcommon.Value, left *int) {
	most := max(*left, text.MinBound)
	switch v.Type() {
	case pcommon.ValueTypeStr:
		c.text(v.Str(), most, v.SetStr)
		*left -= len(v.Str())
	case pcommon.ValueTypeBytes:
		if v.Bytes().Len() > most {
			c.add(values, 1)
			v.Bytes().FromRaw([]byte(text.Finished(string(v.Bytes().AsRaw()[:most])))) // they have no mark: see tare_redact
		}
		*left -= v.Bytes().Len()
	case pcommon.ValueTypeSlice:
		cut := 0
		v.Slice().RemoveIf(func(e pcommon.Value) bool {
			if *left -= element; *left < 0 {
				cut = 1
				return true
			}
			c.nested(e, left)
			return false
		})
		if cut > 0 {
			c.add(values, 1)
		}
	case pcommon.ValueTypeMap:
		cut := 0
		v.Map().RemoveIf(func(key string, e pcommon.Value) bool {
			if len(key) > c.Key {
				c.add(keys, 1)
				return true
			}
			if *left -= element + len(key); *left < 0 {
				cut = 1
				return true
			}
			c.nested(e, left)
			return false
		})
		if cut > 0 {
			c.add(values, 1)
		}
	}
}

// resource cuts what telemetry of one sender shares.
func (c *cutter) resource(r pcommon.Resource, schema string, setSchema func(string)) {
	c.name(schema, setSchema)
	cutCounted(c, r)
	if refs := entity.ResourceEntityRefs(r); refs.Len() > 0 {
		refs.RemoveIf(func(e entity.EntityRef) bool {
			size := len(e.Type()) + len(e.SchemaUrl())
			for _, list := range []pcommon.StringSlice{e.IdKeys(), e.DescriptionKeys()} {
				for _, key := range list.All() {
					size += element + len(key)
				}
			}
			if size <= c.Value {
				return false
			}
			c.add(names, 1)
			return true
		})
	}
	c.mark(r.Attributes())
}

func (c *cutter) scope(s pcommon.InstrumentationScope, schema string, setSchema func(string)) {
	c.name(schema, setSchema)
	c.name(s.Name(), s.SetName)
	c.name(s.Version(), s.SetVersion)
	cutCounted(c, s)
	c.mark(s.Attributes())
}

func (c *cutter) traces(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		c.resource(rs.Resource(), rs.SchemaUrl(), rs.SetSchemaUrl)
		for _, ss := range rs.ScopeSpans().All() {
			c.scope(ss.Scope(), ss.SchemaUrl(), ss.SetSchemaUrl)
			for _, s := range ss.Spans().All() {
				c.span(s)
			}
		}
	}
}

func (c *cutter) span(s ptrace.Span) {
	c.name(s.Name(), s.SetName)
	c.state(s.TraceState())
	c.text(s.Status().Message(), c.Value, s.Status().SetMessage)
	cutCounted(c, s)
	if s.Events().Len() > 0 {
		c.events(s)
	}
	if s.Links().Len() > 0 {
		c.links(s)
	}
	c.mark(s.Attributes())
}

func (c *cutter) events(s ptrace.Span) {
	if over := s.Events().Len() - c.Events; over > 0 {
		c.add(events, over)
		s.SetDroppedEventsCount(s.DroppedEventsCount() + uint32(over)) //nolint:gosec // a count
		n := 0
		s.Events().RemoveIf(func(ptrace.SpanEvent) bool { n++; return n > c.Events })
	}
	for _, e := range s.Events().All() {
		c.name(e.Name(), e.SetName)
		cutCounted(c, e)
	}
}

func (c *cutter) links(s ptrace.Span) {
	if over := s.Links().Len() - c.Links; over > 0 {
		c.add(links, over)
		s.SetDroppedLinksCount(s.DroppedLinksCount() + uint32(over)) //nolint:gosec // a count
		n := 0
		s.Links().RemoveIf(func(ptrace.SpanLink) bool { n++; return n > c.Links })
	}
	for _, l := range s.Links().All() {
		c.state(l.TraceState())
		cutCounted(c, l)
	}
}

func (c *cutter) logs(ld plog.Logs) {
	for _, rl := range ld.ResourceLogs().All() {
		c.resource(rl.Resource(), rl.SchemaUrl(), rl.SetSchemaUrl)
		for _, sl := range rl.ScopeLogs().All() {
			c.scope(sl.Scope(), sl.SchemaUrl(), sl.SetSchemaUrl)
			for _, r := range sl.LogRecords().All() {
				c.name(r.EventName(), r.SetEventName)
				c.name(r.SeverityText(), r.SetSeverityText)
				left := c.body()
				c.nested(r.Body(), &left)
				cutCounted(c, r)
				c.mark(r.Attributes())
			}
		}
	}
}

// metrics are cut like names, with their labels, so that different series stay different. They have no mark of their
// own: an attribute would make them other series.
func (c *cutter) metrics(md pmetric.Metrics) {
	for _, rm := range md.ResourceMetrics().All() {
		c.resource(rm.Resource(), rm.SchemaUrl(), rm.SetSchemaUrl)
		for _, sm := range rm.ScopeMetrics().All() {
			c.scope(sm.Scope(), sm.SchemaUrl(), sm.SetSchemaUrl)
			for _, m := range sm.Metrics().All() {
				c.name(m.Name(), m.SetName)
				c.name(m.Unit(), m.SetUnit)
				c.text(m.Description(), c.Value, m.SetDescription)
				c.attributes(m.Metadata())
				c.points(m)
			}
		}
	}
	c.bits = 0
}

func (c *cutter) points(m pmetric.Metric) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		cutPoints(c, m.Gauge().DataPoints().All())
	case pmetric.MetricTypeSum:
		cutPoints(c, m.Sum().DataPoints().All())
	case pmetric.MetricTypeHistogram:
		cutPoints(c, m.Histogram().DataPoints().All())
	case pmetric.MetricTypeExponentialHistogram:
		cutPoints(c, m.ExponentialHistogram().DataPoints().All())
	case pmetric.MetricTypeSummary:
		for _, p := range m.Summary().DataPoints().All() {
			c.labels(p.Attributes())
		}
	}
}

// point is of a metric that has exemplars.
type point interface {
	Attributes() pcommon.Map
	Exemplars() pmetric.ExemplarSlice
}

func cutPoints[P point](c *cutter, points iter.Seq2[int, P]) {
	for _, p := range points {
		c.labels(p.Attributes())
		for _, e := range p.Exemplars().All() {
			c.attributes(e.FilteredAttributes())
		}
	}
}

// labels cuts the attributes of a point. Those that are too many become one, whose value is a hash of them.
func (c *cutter) labels(m pcommon.Map) {
	over := m.Len() > c.Attributes
	for key, v := range m.All() {
		over = over || len(key) > c.Key || v.Type() == pcommon.ValueTypeStr && len(v.Str()) > c.Name || v.Type() >= pcommon.ValueTypeMap
	}
	if !over {
		return
	}
	rest := sha256.New()
	kept, cut := pcommon.NewMap(), 0
	for key, v := range m.All() {
		if kept.Len() >= c.Attributes {
			_, _ = fmt.Fprintf(rest, "%q=%q,", key, v.AsString())
			cut++
			continue
		}
		if len(key) > c.Key {
			c.add(keys, 1)
			key = text.Name(key, c.Key)
		}
		to := kept.PutEmpty(key)
		if s := v.AsString(); len(s) > c.Name {
			c.add(values, 1)
			to.SetStr(text.Name(s, c.Name))
		} else {
			v.CopyTo(to)
		}
	}
	if cut > 0 {
		c.add(attributes, cut)
		kept.PutStr(semconv.Cut, fmt.Sprintf("%x", rest.Sum(nil)[:8]))
	}
	kept.MoveTo(m)
}
