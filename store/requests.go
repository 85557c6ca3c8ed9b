package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// The metrics of all requests that Tare's agent sends; others are not kept.
const (
	serviceRequests = "tare.service.request.duration"
	edgeRequests    = "tare.edge.request.duration"
)

// Bounds of what is kept of metrics.
const (
	MaxMetricPoints = 4096      // of a write
	maxMetricName   = 256       // bytes of a service's or a peer's name
	maxMetricBounds = 128       // bounds of a histogram
	maxMetricWrite  = 4 << 20   // bytes of a write before compression
	maxValueSize    = 20        // bytes of a duration and its count
	maxPointHead    = 40        // bytes of a point beside its names and values
	defaultMetrics  = 256 << 20 // bytes of all, compressed
)

const keyRequests = 'N'

// requests are the metrics of all requests, beside the chunks: a record for each write, with the
// requests of each service and of each edge between two. A map reads them all, of its time.
//
//	'N' end(8) n(4)   end: when the last of the record's points ends, Unix time in ns; n: tells records
//	                  of the same end apart
type requests struct {
	mu      sync.Mutex // of writes and removals
	records []requestRecord
	next    uint32

	bytes, points                       atomic.Int64
	written, refused, expired           atomic.Uint64
	other, cumulative, invalid, tooMany atomic.Uint64
	evicted                             atomic.Uint64
}

// requestRecord is one record on disk.
type requestRecord struct {
	end    uint64
	n      uint32
	points uint32
	bytes  int64
}

// MetricStats describes the metrics of all requests, in points, and counts them since the store was opened.
type MetricStats struct {
	Points, Bytes uint64 // stored
	Written       uint64
	Expired       uint64 // removed by age
	Refused       uint64 // not taken: disk full, closed
	// Dropped.
	Other      uint64 // of other metrics than an agent's requests
	Cumulative uint64 // not of delta temporality
	Invalid    uint64 // without a service, or with a histogram that is none
	TooMany    uint64 // beyond MaxMetricPoints of a write
	Evicted    uint64 // the oldest, so that all stay below a quarter of a GiB and an eighth of Options.MaxBytes
}

// measured is one point: requests of a service, or from one to its peer.
type measured struct {
	service, peer string // peer: "" for those that the service received
	traced        bool
	failed        bool
	start, end    uint64 // Unix time in ns
	values        []valueCount
}

// valueCount is how many requests took so long.
type valueCount struct{ ns, n uint64 }

func requestsKey(end uint64, n uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{keyRequests}, end), n)
}

func (o *Options) maxMetricBytes() int64 {
	if o.MaxBytes > 0 {
		return min(defaultMetrics, o.MaxBytes/logShare)
	}
	return defaultMetrics
}

// loadRequests finds what is stored.
func (s *Store) loadRequests() error {
	r := &s.requests
	return eachKey(s.db, []byte{keyRequests}, []byte{keyRequests + 1}, "reading metrics", func(key, value []byte) error {
		d := decoder{b: value}
		points := d.uint32()
		if len(key) != 13 || d.bad {
			return corrupt("a record of metrics")
		}
		one := requestRecord{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint32(key[9:]), points, int64(len(key) + len(value))}
		r.records = append(r.records, one)
		r.bytes.Add(one.bytes)
		r.points.Add(int64(points))
		r.next = max(r.next, one.n+1)
		return nil
	})
}

// WriteMetrics keeps what an agent measured of all requests, of which [Store.Map] makes a map where there
// are no spans. Of other metrics, and beyond the bounds, points are dropped and counted ([MetricStats]). When
// it returns nil, the rest survives what Write's spans do; it is not in the ledger.
//
// Errors: ErrFull, ErrClosed.
func (s *Store) WriteMetrics(ctx context.Context, md pmetric.Metrics) error {
	points := s.pointsOf(md)
	if len(points) == 0 {
		return nil
	}
	err := s.writeRequests(ctx, points)
	if err != nil {
		s.requests.refused.Add(uint64(len(points)))
	}
	return err
}

// pointsOf reads what is kept of the metrics, and counts what is not.
func (s *Store) pointsOf(md pmetric.Metrics) []measured {
	r := &s.requests
	var points []measured
	size := 0
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if m.Name() != serviceRequests && m.Name() != edgeRequests || m.Type() != pmetric.MetricTypeHistogram {
					r.other.Add(uint64(max(countPoints(m), 1))) //nolint:gosec // a count
					continue
				}
				list := m.Histogram().DataPoints()
				if m.Histogram().AggregationTemporality() != pmetric.AggregationTemporalityDelta {
					r.cumulative.Add(uint64(list.Len())) //nolint:gosec // a count
					continue
				}
				for _, p := range list.All() {
					one, ok := measuredOf(m.Name() == edgeRequests, p)
					size += len(one.service) + len(one.peer) + len(one.values)*maxValueSize
					switch {
					case !ok:
						r.invalid.Add(1)
					case len(points) >= MaxMetricPoints || size > maxMetricWrite:
						r.tooMany.Add(1)
					default:
						points = append(points, one)
					}
				}
			}
		}
	}
	return points
}

func countPoints(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints().Len()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	}
	return 0
}

// measuredOf reads a point; ok is false if it lacks a name, or its histogram is none.
func measuredOf(isEdge bool, p pmetric.HistogramDataPoint) (m measured, ok bool) {
	text := func(key string) string { return stringIn(p.Attributes(), key) }
	is := func(key string) bool {
		v, there := p.Attributes().Get(key)
		return there && v.Type() == pcommon.ValueTypeBool && v.Bool()
	}
	m = measured{service: text("service"), failed: is("error"), start: uint64(p.StartTimestamp()), end: uint64(p.Timestamp())}
	if isEdge {
		m.service, m.peer, m.traced = text("client"), text("peer"), is("peer_traced")
		if _, err := netip.ParseAddrPort(m.peer); err == nil && !m.traced {
			// As spans name it: by the database, too, where it is one.
			if db := text("protocol"); db == "redis" || db == "memcached" {
				m.peer = db + " " + m.peer
			}
		}
	}
	bounds, counts := p.ExplicitBounds(), p.BucketCounts()
	if m.service == "" || len(m.service) > maxMetricName || isEdge != (m.peer != "") || len(m.peer) > maxMetricName ||
		m.end == 0 || m.start > m.end || bounds.Len() > maxMetricBounds || counts.Len() != bounds.Len()+1 {
		return measured{}, false
	}
	for i := range counts.Len() {
		if counts.At(i) == 0 {
			continue
		}
		lo, hi := 0.0, 0.0
		if i > 0 {
			lo = bounds.At(i - 1)
		}
		if i < bounds.Len() {
			hi = bounds.At(i)
		} else {
			hi = lo
		}
		// A bucket's requests took what is in its middle: more is not known.
		ns := (lo + hi) / 2 * 1e9
		if !(ns >= 0 && ns < math.MaxInt64) { // NaN is neither
			return measured{}, false
		}
		m.values = append(m.values, valueCount{uint64(ns), counts.At(i)})
	}
	return m, true
}

// encodeRequests and decodeRequests: a record without its number of points.
func encodeRequests(points []measured) []byte {
	var b []byte
	for i := range points {
		p := &points[i]
		b = appendBytes(appendBytes(b, p.service), p.peer)
		b = append(b, flagIf(p.traced, 1)|flagIf(p.failed, 2))
		b = binary.AppendUvarint(binary.AppendUvarint(b, p.start), p.end-p.start)
		b = binary.AppendUvarint(b, uint64(len(p.values)))
		for _, v := range p.values {
			b = binary.AppendUvarint(binary.AppendUvarint(b, v.ns), v.n)
		}
	}
	return b
}

func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

func decodeRequests(value []byte) ([]measured, error) {
	d := decoder{b: value}
	n := d.uint32()
	size, err := s2.DecodedLen(d.b)
	if d.bad || err != nil || size > maxMetricWrite+MaxMetricPoints*maxPointHead || n > MaxMetricPoints {
		return nil, corrupt("a record of metrics cannot be decoded")
	}
	body, err := s2.Decode(nil, d.b)
	if err != nil {
		return nil, corrupt("a record of metrics: %v", err)
	}
	d = decoder{b: body}
	var points []measured
	for range n {
		p := measured{service: d.name(), peer: d.name()}
		if flags := d.take(1); flags != nil {
			p.traced, p.failed = flags[0]&1 != 0, flags[0]&2 != 0
		}
		p.start = d.uint64()
		p.end = p.start + d.uint64()
		p.values = make([]valueCount, d.count(2))
		for i := range p.values {
			p.values[i] = valueCount{d.uint64(), d.uint64()}
		}
		if d.bad {
			break
		}
		points = append(points, p)
	}
	return points, d.done("a record of metrics")
}

func (s *Store) writeRequests(ctx context.Context, points []measured) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := ctx.Err(); err != nil {
		return err
	}
	value := binary.AppendUvarint(nil, uint64(len(points)))
	value = append(value, s2.EncodeBetter(nil, encodeRequests(points))...)
	if err := s.checkDisk(s.writeNeeds(len(value))); err != nil {
		return err
	}
	end := uint64(0)
	for i := range points {
		end = max(end, points[i].end)
	}
	r := &s.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	key := requestsKey(end, r.next)
	if err := s.db.Set(key, value, pebble.Sync); err != nil {
		return engineError("writing metrics", err)
	}
	one := requestRecord{end, r.next, uint32(len(points)), int64(len(key) + len(value))} //nolint:gosec // at most MaxMetricPoints
	r.next++
	at, _ := slices.BinarySearchFunc(r.records, one, func(a, b requestRecord) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.n, b.n)) })
	r.records = slices.Insert(r.records, at, one)
	r.bytes.Add(one.bytes)
	r.points.Add(int64(len(points)))
	r.written.Add(uint64(len(points)))
	return nil
}

// expireRequests removes the records that are too old at the time, and the oldest beyond the bound.
func (s *Store) expireRequests(ctx context.Context, now time.Time) error {
	r := &s.requests
	limit := uint64(0)
	if s.opt.MaxAge > 0 {
		limit = uint64(max(now.Add(-s.opt.MaxAge).UnixNano(), 0))
	}
	r.mu.Lock()
	total, n := r.bytes.Load(), 0
	for _, one := range r.records {
		if one.end < limit {
			r.expired.Add(uint64(one.points))
		} else if total > s.opt.maxMetricBytes() {
			r.evicted.Add(uint64(one.points))
		} else {
			break
		}
		total -= one.bytes
		n++
	}
	if n == 0 {
		r.mu.Unlock()
		return nil
	}
	last := r.records[n-1]
	from, to := []byte{keyRequests}, requestsKey(last.end, last.n+1)
	// Not synced, as where chunks are removed.
	err := s.db.DeleteRange(from, to, pebble.NoSync)
	if err == nil {
		for _, one := range r.records[:n] {
			r.bytes.Add(-one.bytes)
			r.points.Add(-int64(one.points))
		}
		r.records = slices.Delete(r.records, 0, n)
	}
	r.mu.Unlock()
	if err != nil {
		return engineError("removing metrics", err)
	}
	return engineError("freeing space", s.db.Compact(ctx, from, to, false))
}

// addRequests adds to the map what agents measured of requests in its time, where no span shows the
// service or the call.
func (v *view) addRequests(ctx context.Context, r *Map) error {
	if v.snap == nil || v.lens != nil && v.lens.scope != nil && v.lens.scope.byResource() {
		return nil // of a salvage; or nothing that the reader's scope could be compared with
	}
	nodes, edges := map[string]*latency{}, map[edgeKey]*latency{}
	for i := range r.Nodes {
		nodes[r.Nodes[i].Service] = nil // nothing is added to it
	}
	seen := map[[2]string]bool{}
	for i := range r.Edges {
		seen[[2]string{r.Edges[i].From, r.Edges[i].To}] = true
	}
	from, to := uint64(0), uint64(math.MaxInt64)
	if !r.Start.IsZero() {
		from = uint64(max(r.Start.UnixNano(), 0))
	}
	if !r.End.IsZero() {
		to = uint64(max(r.End.UnixNano(), 0))
	}
	since := to
	err := eachKey(v.snap, requestsKey(from, 0), []byte{keyRequests + 1}, "reading metrics", func(_, value []byte) error {
		points, err := decodeRequests(value)
		if err != nil {
			v.s.log.Error("store: a record of metrics is left out of the map", "error", err)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range points {
			p := &points[i]
			if middle := p.start + (p.end-p.start)/2; middle < from || middle >= to || !v.lens.shows(p) {
				continue
			}
			since = min(since, p.start)
			if p.traced && v.lens != nil && v.lens.scope != nil && !v.lens.scope.Service(p.peer) {
				p.peer = OtherServices
			}
			if p.peer == "" {
				p.addTo(nodes, p.service)
			} else if !seen[[2]string{p.service, p.peer}] {
				p.addToEdges(edges)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, l := range nodes {
		if l != nil {
			n := l.latency(latencyKey{service: name})
			n.Measured = true
			r.Nodes = append(r.Nodes, n)
			r.MeasuredSince = timeOf(since)
		}
	}
	for k, l := range edges {
		r.Edges = append(r.Edges, Edge{
			From: k.from, To: k.to, Traced: k.traced, Measured: true, Weight: l.durations.total, Errors: l.errors,
			P50: l.quantile(.5), P95: l.quantile(.95), P99: l.quantile(.99),
		})
		r.MeasuredSince = timeOf(since)
	}
	slices.SortFunc(r.Nodes, func(a, b Latency) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Service, b.Service))
	})
	slices.SortFunc(r.Edges, busiest)
	return nil
}

// shows reports whether the lens leaves the point in.
func (l *lens) shows(p *measured) bool {
	return l == nil || (l.scope == nil || l.scope.Service(p.service)) && p.end >= l.limit(p.service)
}

func (p *measured) addTo(all map[string]*latency, name string) {
	l, known := all[name]
	if !known {
		l = &latency{}
		all[name] = l
	}
	if l != nil {
		l.addMeasured(p)
	}
}

func (p *measured) addToEdges(all map[edgeKey]*latency) {
	k := edgeKey{p.service, p.peer, p.traced}
	if all[k] == nil {
		all[k] = &latency{}
	}
	all[k].addMeasured(p)
}

func (l *latency) addMeasured(p *measured) {
	for _, v := range p.values {
		l.durations.add(v.ns, float64(v.n))
		if p.failed {
			l.errors += float64(v.n)
		}
	}
}

// MetricStats returns the state of the metrics of all requests.
func (s *Store) MetricStats() MetricStats {
	r := &s.requests
	return MetricStats{
		Points: uint64(r.points.Load()), Bytes: uint64(r.bytes.Load()), //nolint:gosec // not negative
		Written: r.written.Load(), Expired: r.expired.Load(), Refused: r.refused.Load(),
		Other: r.other.Load(), Cumulative: r.cumulative.Load(), Invalid: r.invalid.Load(), TooMany: r.tooMany.Load(), Evicted: r.evicted.Load(),
	}
}
