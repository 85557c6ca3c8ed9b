// Package red makes Prometheus histograms of what the kernel side measured of
// all requests, sampled or not: rate, errors and duration of every service and
// of every edge from one service to what it asks.
//
// It reads when somebody scrapes, or when what was measured is due to be sent by OTLP, and not otherwise. It refuses to guess: an
// edge's peer is a service's name only where a traced service of this host is
// known to listen, or where a cluster knows the service; else it is the address and the port. What was measured before
// stays with the name that it had, when the address is another's by then.
package red

import (
	"net/netip"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// Source is the kernel side; kernel.Tracer is one.
type Source interface {
	Measures() ([]kernel.Measured, error)
	Listeners() (map[bpf.PortKey]bpf.Service, error)
	DropMeasures(keys []bpf.MeasureKey) error
}

// other is the name of what found no room in the kernel's table.
const other = "other"

const (
	aboutService = "From a request's first byte to its response's first byte at the service that answers, of all requests."
	aboutEdge    = "From a request's first byte to its response's first byte at the service that asks, of all requests."
)

var (
	descService = prometheus.NewDesc("tare_service_request_duration_seconds", aboutService,
		[]string{"service", "protocol", "status_class", "error"}, nil)
	descEdge = prometheus.NewDesc("tare_edge_request_duration_seconds", aboutEdge,
		[]string{"client", "peer", "peer_traced", "protocol", "status_class", "error"}, nil)
	descDropped = prometheus.NewDesc("tare_metrics_dropped_total",
		"Requests of ended series that were not sent by OTLP, because the receiver took nothing and too many series had ended meanwhile.", nil, nil)
)

// Collector is a prometheus.Collector. It is safe for concurrent use.
type Collector struct {
	source    Source
	resource  func(index uint16) *span.Resource
	namespace func(netip.Addr) (inode uint32, ok bool)
	named     func(netip.Addr, uint16) string

	mu     sync.Mutex
	fed    map[source]*fed // one for each entry of the kernel's table, which is bounded
	series map[labels]*series
	// Of series that have ended and wait to be sent; nil without Deltas.
	ended   map[labels]*bpf.Measure
	dropped uint64 // requests of ended series that found no room there
}

// source is an entry of the kernel side's table.
type source struct {
	key   bpf.MeasureKey
	other bool
}

// fed is how much of an entry was taken over, and by which series last.
type fed struct {
	measure bpf.Measure
	labels  labels
}

// series is a histogram. It ends when no entry feeds it any more: when those
// that did have gone, or feed another since their peer has another name.
type series struct {
	measure bpf.Measure
	sent    bpf.Measure // of measure, by OTLP
	feeders int
}

// New makes a collector. resource finds the resource of a service index, nil
// if there is none; namespace finds the network namespace that has an address
// which is not a loopback one; named is the cluster's name of who has an address, "" where it
// has none, and nil without a cluster.
func New(s Source, resource func(index uint16) *span.Resource, namespace func(netip.Addr) (inode uint32, ok bool), named func(netip.Addr, uint16) string) *Collector {
	return &Collector{source: s, resource: resource, namespace: namespace, named: named, fed: map[source]*fed{}, series: map[labels]*series{}}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descService
	ch <- descEdge
	ch <- descDropped
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.read(); err != nil {
		ch <- prometheus.NewInvalidMetric(descService, err)
		return
	}
	for l, s := range c.series {
		ch <- l.metric(&s.measure)
	}
	if c.ended != nil {
		ch <- prometheus.MustNewConstMetric(descDropped, prometheus.CounterValue, float64(c.dropped))
	}
}

// Forget ends what was measured of a service that has ended: its index may be
// another's next.
func (c *Collector) Forget(index uint16) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.read(); err != nil {
		return err
	}
	var keys []bpf.MeasureKey
	for s := range c.fed {
		if !s.other && s.key.Service == index {
			keys = append(keys, s.key)
		}
	}
	if err := c.source.DropMeasures(keys); err != nil {
		return err
	}
	for _, k := range keys {
		c.unfeed(source{key: k})
	}
	return nil
}

// read adds what was measured since the last time to the series of those names
// that services and peers have now. c.mu is held.
func (c *Collector) read() error {
	measured, err := c.source.Measures()
	if err != nil {
		return err
	}
	listeners, err := c.source.Listeners()
	if err != nil {
		return err
	}
	there := make(map[source]bool, len(measured))
	for i := range measured {
		m := &measured[i]
		from := source{m.Key, m.Other}
		there[from] = true
		f := c.fed[from]
		if f != nil && f.measure == m.Measure {
			continue
		}
		if f != nil && m.Count() < (&kernel.Measured{Measure: f.measure}).Count() { // the kernel side forgot it meanwhile
			c.unfeed(from)
			f = nil
		}
		l := c.labels(m, listeners)
		if f == nil || f.labels != l {
			taken := bpf.Measure{}
			if f != nil {
				taken = f.measure
			}
			to := c.series[l]
			if to == nil {
				to = &series{}
				c.series[l] = to
			}
			to.feeders++
			c.unfeed(from)
			f = &fed{measure: taken, labels: l}
			c.fed[from] = f
		}
		add(&c.series[l].measure, &m.Measure, &f.measure)
		f.measure = m.Measure
	}
	for from := range c.fed {
		if !there[from] {
			c.unfeed(from)
		}
	}
	return nil
}

// unfeed ends that an entry feeds a series.
func (c *Collector) unfeed(from source) {
	f := c.fed[from]
	if f == nil {
		return
	}
	delete(c.fed, from)
	s := c.series[f.labels]
	if s.feeders--; s.feeders == 0 {
		c.end(f.labels, s)
		delete(c.series, f.labels)
	}
}

// labels tell one series from another.
type labels struct {
	client, peer string // client: "" for a service's own requests
	traced       bool
	service      string
	protocol     string
	class        string
	failed       bool
}

func (c *Collector) labels(m *kernel.Measured, listeners map[bpf.PortKey]bpf.Service) labels {
	k := &m.Key
	isClient := bpf.TareRole(k.Role) == bpf.TareRoleTARE_CLIENT
	outcome := bpf.TareOutcome(k.Outcome)
	l := labels{protocol: protocolName(bpf.TareProtocol(k.Protocol)), class: className(outcome), failed: failed(outcome, isClient)}
	name := other
	if m.Other {
		l.protocol = other
	} else {
		name = c.service(k.Service)
	}
	if !isClient {
		l.service = name
		return l
	}
	l.client, l.peer = name, other
	if !m.Other {
		l.peer, l.traced = c.peer(k, listeners)
	}
	return l
}

func (c *Collector) service(index uint16) string {
	if r := c.resource(index); r != nil {
		return r.Service
	}
	return "unknown"
}

// peer names where a request goes, and tells whether that is a traced service.
func (c *Collector) peer(k *bpf.MeasureKey, listeners map[bpf.PortKey]bpf.Service) (name string, traced bool) {
	if k.Family == unix.AF_UNIX {
		return "unix", false // whichever socket
	}
	address := netip.AddrFrom4([4]byte(k.Address[:4]))
	if k.Family == unix.AF_INET6 {
		address = netip.AddrFrom16(k.Address).Unmap()
	}
	netns, ok := k.Netns, k.Netns != 0
	if !ok {
		netns, ok = c.namespace(address)
	}
	if s, listens := listeners[bpf.PortKey{Netns: netns, Port: uint32(k.Port)}]; ok && listens {
		if r := c.resource(s.Index); r != nil {
			return r.Service, true
		}
	}
	if c.named != nil {
		if name := c.named(address, k.Port); name != "" {
			return name, false
		}
	}
	return netip.AddrPortFrom(address, k.Port).String(), false
}

// add adds what m has more than before.
func add(to, m, before *bpf.Measure) {
	to.Sum += m.Sum - before.Sum
	for i, n := range m.Bucket {
		to.Bucket[i] += n - before.Bucket[i]
	}
}

func (l labels) metric(m *bpf.Measure) prometheus.Metric {
	cumulative := make(map[float64]uint64, len(m.Bucket)-1)
	var count uint64
	for i, n := range m.Bucket {
		count += n
		if i < len(m.Bucket)-1 { // the last has no bound
			cumulative[bound(i)] = count
		}
	}
	desc, values := descService, []string{l.service}
	if l.client != "" {
		desc, values = descEdge, []string{l.client, l.peer, strconv.FormatBool(l.traced)}
	}
	values = append(values, l.protocol, l.class, strconv.FormatBool(l.failed))
	h, err := prometheus.NewConstHistogram(desc, count, float64(m.Sum)/1e9, cumulative, values...)
	if err != nil { // a name that is not UTF-8
		return prometheus.NewInvalidMetric(desc, err)
	}
	return h
}
