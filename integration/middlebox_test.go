package integration

import (
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// A device between two hosts blanks out TCP options, with an agent on both sides: what is still joined, and what says so.
func TestOptionsAreStripped(t *testing.T) {
	t.Parallel()
	const requests = 1000
	for _, v := range []struct {
		name   string
		agents []string
		by     string // what the backend's spans say of how their parent was found, if they have one
	}{
		{name: "tags alone"},
		{name: "positions", agents: []string{"--sequence"}, by: "sequence"},
		{name: "positions, events of messages", agents: []string{"--sequence", "--events=only"}, by: "sequence"},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := wire(t, newHosts(t), ipv4, proxyTo)
			w.hosts.strip(t)
			j := joinBefore(t, newSink(t), "processors.tare_tracer.peers=learned")
			between := watch(t, w.hosts.b, cable, w.backend)
			a, b := w.agents(t, j.sink, v.agents...)
			before := 0
			if v.by == "" { // so that the collector knows that services are traced behind the address
				send(t, load.Options{Addr: w.entry, Connections: 1, Requests: 20, AppendPath: numbered})
				j.passed(t, a, b)
				before = j.sink.count()
			}
			send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
			if v.by != "" {
				j.joined(t, shapeOf(t, "nginx"), requests, requests, a, b)
			} else {
				j.passed(t, a, b)
			}
			between.wantOptions(t, 2*requests, false)
			linked, apart, wanting := 0, 0, 0
			all := j.sink.since(before)
			for i := range all {
				sp := &all[i]
				if sp.Kind == span.Server && sp.Resource.Service == "backend" {
					if sp.Parent.IsZero() {
						apart++
					} else if by, _ := sp.Attr(semconv.LinkedBy); by.Text() == v.by {
						linked++
					}
				}
				if why, has := sp.Attr(semconv.TraceReason); has && why.Text() == "server_missing" {
					wanting++
				}
			}
			if v.by != "" {
				if linked != requests || apart+wanting > 0 {
					t.Errorf("%d spans were joined by %s, %d are apart, %d traces lack one", linked, v.by, apart, wanting)
				}
				return
			}
			if apart != requests || linked > 0 || wanting != requests {
				t.Errorf("%d spans are apart, %d have a parent, %d traces say that a server's span is missing, of %d requests", apart, linked, wanting, requests)
			}
		})
	}
}

// The same device lets options in IP headers pass: with --tag ip nothing is left to be joined.
func TestStrippedTCPOptionsLeaveIPTags(t *testing.T) {
	t.Parallel()
	w := wire(t, newHosts(t), ipv4, proxyTo)
	w.hosts.strip(t)
	s := newSink(t)
	a, b, before := w.agentsByIP(t, s)
	const requests = 1000
	send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
	m, mb := a.settle(), b.settle()
	wantComplete(t, judge(t, s.since(before), shapeOf(t, "nginx")), m.and(mb), requests, 0.999)
}
