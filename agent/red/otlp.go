package red

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/otel/wire"
)

// Names of the histograms in OTLP. A translation to Prometheus makes the names of descService and
// descEdge of these.
const (
	nameService = "tare.service.request.duration"
	nameEdge    = "tare.edge.request.duration"
	scopeName   = "github.com/tare-trace/tare/agent"
)

// Tags of opentelemetry/proto/{metrics,collector/metrics}/v1, number<<3 | type. They never change.
const (
	requestResourceMetrics = 1<<3 | 2
	resourceMetricsOf      = 1<<3 | 2
	resourceMetricsScope   = 2<<3 | 2
	scopeMetricsScope      = 1<<3 | 2
	scopeMetricsMetric     = 2<<3 | 2
	metricName             = 1<<3 | 2
	metricDescription      = 2<<3 | 2
	metricUnit             = 3<<3 | 2
	metricHistogram        = 9<<3 | 2
	histogramPoint         = 1<<3 | 2
	histogramTemporality   = 2 << 3
	pointStart             = 2<<3 | 1
	pointTime              = 3<<3 | 1
	pointCount             = 4<<3 | 1
	pointSum               = 5<<3 | 1
	pointCounts            = 6<<3 | 2 // packed fixed64
	pointBounds            = 7<<3 | 2 // packed double
	pointAttribute         = 9<<3 | 2
	temporalityDelta       = 1
)

// encode writes an ExportMetricsServiceRequest of all points that count a request, and how many there
// are; none if there are none. Names of services come from outside: bytes that are no UTF-8 are replaced.
func encode(sums map[labels]*bpf.Measure, attributes map[string]string, since, now time.Time) (request []byte, points int) {
	var services, edges []byte
	for l, m := range sums {
		if (&kernel.Measured{Measure: *m}).Count() == 0 {
			continue
		}
		points++
		if p := encodePoint(l, m, since, now); l.client == "" {
			services = wire.AppendBytes(services, histogramPoint, p)
		} else {
			edges = wire.AppendBytes(edges, histogramPoint, p)
		}
	}
	if points == 0 {
		return nil, 0
	}
	var resource []byte
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		resource = wire.AppendStringValue(resource, wire.ResourceAttribute, key, wire.Text(attributes[key]))
	}
	scope := wire.AppendBytes(nil, scopeMetricsScope, wire.AppendBytes(nil, wire.ScopeName, scopeName))
	scope = appendHistogram(scope, nameService, aboutService, services)
	scope = appendHistogram(scope, nameEdge, aboutEdge, edges)
	all := wire.AppendBytes(nil, resourceMetricsOf, resource)
	all = wire.AppendBytes(all, resourceMetricsScope, scope)
	return wire.AppendBytes(nil, requestResourceMetrics, all), points
}

func appendHistogram(b []byte, name, about string, points []byte) []byte {
	if len(points) == 0 {
		return b
	}
	m := wire.AppendBytes(nil, metricName, name)
	m = wire.AppendBytes(m, metricDescription, about)
	m = wire.AppendBytes(m, metricUnit, "s")
	m = wire.AppendBytes(m, metricHistogram, wire.AppendVarint(points, histogramTemporality, temporalityDelta))
	return wire.AppendBytes(b, scopeMetricsMetric, m)
}

func encodePoint(l labels, m *bpf.Measure, since, now time.Time) []byte {
	b := wire.AppendFixed64(nil, pointStart, uint64(since.UnixNano())) //nolint:gosec // after 1970
	b = wire.AppendFixed64(b, pointTime, uint64(now.UnixNano()))       //nolint:gosec // after 1970
	b = wire.AppendFixed64(b, pointCount, (&kernel.Measured{Measure: *m}).Count())
	b = wire.AppendFixed64(b, pointSum, math.Float64bits(float64(m.Sum)/1e9))
	b = wire.AppendHead(b, pointCounts, 8*len(m.Bucket))
	for _, n := range m.Bucket {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = wire.AppendHead(b, pointBounds, 8*(len(m.Bucket)-1)) // the last bucket has no bound
	for i := range len(m.Bucket) - 1 {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(bound(i)))
	}
	text := func(key, value string) { b = wire.AppendStringValue(b, pointAttribute, key, wire.Text(value)) }
	is := func(key string, value bool) { b = wire.AppendBoolValue(b, pointAttribute, key, value) }
	if l.client == "" {
		text("service", l.service)
	} else {
		text("client", l.client)
		text("peer", l.peer)
		is("peer_traced", l.traced)
	}
	text("protocol", l.protocol)
	text("status_class", l.class)
	is("error", l.failed)
	return b
}
