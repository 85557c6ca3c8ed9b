package integration

import "testing"

// One request of ten sampled: a request that is handed over is as good as any.
func TestHandoversOneOfTen(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "puma")
	c, s := newServers(t, bothAsk...), newSink(t)
	c.answers(puma("-t", "8:8", "-w", "2")(c))
	a := trace(t, s, nil, append(c.ports, ratio("0.1")...)...)
	d := drive{requests: few(6000)}
	a.takes(t, func() { d.run(t, loopback(c.entry)) })
	from, sampled := s.count(), a.mustMetrics().sampled()
	d.run(t, loopback(c.entry))
	m := a.settle()
	sampled = m.sampled() - sampled
	wantRate(t, sampled, d.requests, 0.1)
	wantComplete(t, judge(t, s.since(from), server{asks: bothAsk}.shape()), m, sampled, 0.97) // calls of threads that are not known yet begin traces behind, uncounted where no sampled request is in flight
}

// takes is the same where threads take requests over: those that do are known, too.
func (a *tracer) takes(t *testing.T, ask func()) {
	t.Helper()
	a.knows(t, ask, "unproven", "no_request")
}
