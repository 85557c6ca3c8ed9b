package red

import (
	"time"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
)

// maxEnded bounds the series that have ended and wait to be sent.
const maxEnded = 2048

// Deltas gives the same histograms for OTLP: what was measured since it was last sent, in
// OpenTelemetry's delta temporality. One goroutine uses it.
type Deltas struct {
	c          *Collector
	attributes map[string]string // of the resource
	since      time.Time
	next       time.Time
	given      []given // by the last Read
}

// given is what Read gave of a series.
type given struct {
	labels labels
	series *series     // nil: of one that has ended
	upTo   bpf.Measure // of the series
	delta  bpf.Measure
}

// Deltas begins at now; what was measured before is in the first Read, too. The attributes are of the
// resource that the metrics come from. A Collector has one Deltas at most.
func (c *Collector) Deltas(now time.Time, attributes map[string]string) *Deltas {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = map[labels]*bpf.Measure{}
	return &Deltas{c: c, attributes: attributes, since: now}
}

// Read returns what was measured since the last Read that was confirmed by Sent: an encoded
// ExportMetricsServiceRequest and how many points it has, none if nothing was measured.
func (d *Deltas) Read(now time.Time) (request []byte, points int, err error) {
	c := d.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.read(); err != nil {
		return nil, 0, err
	}
	d.next, d.given = now, d.given[:0]
	sums := map[labels]*bpf.Measure{}
	give := func(g given) {
		d.given = append(d.given, g)
		if sums[g.labels] == nil {
			sums[g.labels] = &bpf.Measure{}
		}
		add(sums[g.labels], &g.delta, &bpf.Measure{})
	}
	for l, s := range c.series {
		g := given{labels: l, series: s, upTo: s.measure}
		add(&g.delta, &s.measure, &s.sent)
		give(g)
	}
	for l, m := range c.ended {
		give(given{labels: l, delta: *m})
	}
	request, points = encode(sums, d.attributes, d.since, now)
	return request, points, nil
}

// Sent says that the receiver has what Read returned. Without it, that is in the next Read, too.
func (d *Deltas) Sent() {
	c := d.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range d.given {
		g := &d.given[i]
		if g.series != nil && c.series[g.labels] == g.series {
			g.series.sent = g.upTo
		} else { // it had ended, or has ended since Read
			c.unsent(g.labels, &g.delta)
		}
	}
	d.since, d.given = d.next, d.given[:0]
}

// end keeps what an ended series has that was not sent. c.mu is held.
func (c *Collector) end(l labels, s *series) {
	if c.ended == nil || s.measure == s.sent {
		return
	}
	m := c.ended[l]
	if m == nil {
		if len(c.ended) >= maxEnded {
			left := kernel.Measured{}
			add(&left.Measure, &s.measure, &s.sent)
			c.dropped += left.Count()
			return
		}
		m = &bpf.Measure{}
		c.ended[l] = m
	}
	add(m, &s.measure, &s.sent)
}

// unsent takes off what was sent of a series that has ended. c.mu is held.
func (c *Collector) unsent(l labels, sent *bpf.Measure) {
	m := c.ended[l]
	if m == nil {
		return
	}
	left := bpf.Measure{}
	add(&left, m, sent)
	if left == (bpf.Measure{}) {
		delete(c.ended, l)
		return
	}
	*m = left
}
