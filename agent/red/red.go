// Package red makes Prometheus histograms of what the kernel side measured of
// all requests, sampled or not: rate, errors and duration of every service and
// of every edge from one service to what it asks.
//
// It reads when somebody scrapes, and not otherwise. It refuses to guess: an
// edge's peer is a service's name only where a traced service of this host is
// known to listen; else it is the address and the port.
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
}

// other is the name of what found no room in the kernel's table.
const other = "other"

var (
	descService = prometheus.NewDesc("tare_service_request_duration_seconds",
		"From a request's first byte to its response's first byte at the service that answers, of all requests.",
		[]string{"service", "protocol", "status_class", "error"}, nil)
	descEdge = prometheus.NewDesc("tare_edge_request_duration_seconds",
		"From a request's first byte to its response's first byte at the service that asks, of all requests.",
		[]string{"client", "peer", "peer_traced", "protocol", "status_class", "error"}, nil)
)

// Collector is a prometheus.Collector. It is safe for concurrent use.
type Collector struct {
	source    Source
	resource  func(index uint16) *span.Resource
	namespace func(netip.Addr) (inode uint32, ok bool)

	mu    sync.Mutex
	names map[peer]string // of peers that were found to be services: a name stays when its service ends
}

// peer is where a request goes.
type peer struct {
	netns   uint32
	address netip.Addr
	port    uint16
}

// New makes a collector. resource finds the resource of a service index, nil
// if there is none; namespace finds the network namespace that has an address
// which is not a loopback one.
func New(s Source, resource func(index uint16) *span.Resource, namespace func(netip.Addr) (inode uint32, ok bool)) *Collector {
	return &Collector{source: s, resource: resource, namespace: namespace, names: map[peer]string{}}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descService
	ch <- descEdge
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	measured, err := c.source.Measures()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descService, err)
		return
	}
	listeners, err := c.source.Listeners()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descEdge, err)
		return
	}
	c.mu.Lock()
	all := map[labels]*bpf.Measure{}
	for i := range measured {
		m := &measured[i]
		l := c.labels(m, listeners)
		if all[l] == nil {
			all[l] = &bpf.Measure{}
		}
		add(all[l], &m.Measure)
	}
	c.mu.Unlock()
	for l, m := range all {
		ch <- l.metric(m)
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
// c.mu is held.
func (c *Collector) peer(k *bpf.MeasureKey, listeners map[bpf.PortKey]bpf.Service) (name string, traced bool) {
	p := peer{netns: k.Netns, port: k.Port}
	if k.Family == unix.AF_INET6 {
		p.address = netip.AddrFrom16(k.Address).Unmap()
	} else {
		p.address = netip.AddrFrom4([4]byte(k.Address[:4]))
	}
	netns, ok := p.netns, p.netns != 0
	if !ok {
		netns, ok = c.namespace(p.address)
	}
	if ok {
		if s, listens := listeners[bpf.PortKey{Netns: netns, Port: uint32(p.port)}]; listens {
			c.names[p] = c.service(s.Index)
		}
	}
	if name, traced = c.names[p]; traced {
		return name, true
	}
	return netip.AddrPortFrom(p.address, p.port).String(), false
}

func add(to, m *bpf.Measure) {
	to.Sum += m.Sum
	for i, n := range m.Bucket {
		to.Bucket[i] += n
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
