package assemble

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/span/semconv"
)

// If a server span lies outside the client span that caused it, the clocks of the
// two hosts differ: a request arrives after it was sent, a response after it was
// written. The calls between two hosts bound the difference. Times are moved by an
// offset within these bounds, and not at all if 0 is within them.
const (
	// endSlack is how much later than its client span a server span may end
	// without proving a clock wrong: an instrumentation may end it after the
	// response left. A server span that begins too early is always proof.
	endSlack = int64(1e6) // ns
	// maxClockHosts bounds the hosts of one trace whose clocks are compared.
	maxClockHosts = 64
	unbounded     = int64(math.MaxInt64) / 4
)

// bounds limit the clock offset of the server's host relative to the client's host.
type bounds struct {
	low, high int64
	any       bool
}

// bound derives bounds from one client span and its server span.
func bound(c, s *item) (low, high int64) {
	low = diff(c.span.StartTimestamp(), s.span.StartTimestamp())
	high = diff(c.span.EndTimestamp(), s.span.EndTimestamp())
	if c.flags&unanswered != 0 || high < low {
		// The client did not wait for the response, or the server span outlasts
		// the call. Only the beginnings can be compared.
		high = unbounded
	}
	return low, high
}

// proves reports whether the bounds rule out that both clocks agree.
func proves(low, high int64) bool { return low > 0 || high < -endSlack }

// diff is a − b in nanoseconds, limited to ±unbounded because span times are untrusted.
func diff(a, b pcommon.Timestamp) int64 {
	if a >= b {
		return int64(min(uint64(a-b), uint64(unbounded)))
	}
	return -int64(min(uint64(b-a), uint64(unbounded)))
}

// setClocks corrects the times of hosts whose clocks differ from the clock of the
// top span's host. Parents must have been found.
func (s *shard) setClocks(t *trace) {
	wrong := false
	for i := range t.items {
		if c, x := t.call(i); c != nil && proves(bound(c, x)) {
			wrong = true
			break
		}
	}
	if !wrong {
		return
	}
	var hosts []*host
	number := map[*host]int{}
	top := t.top()
	for i := -1; i < len(t.items); i++ {
		h := top.origin.resource.host // number 0
		if i >= 0 {
			h = t.items[i].origin.resource.host
		}
		if _, ok := number[h]; !ok {
			if len(hosts) == maxClockHosts {
				s.stats.Unproven++
				return
			}
			number[h] = len(hosts)
			hosts = append(hosts, h)
		}
	}
	n := len(hosts)
	pairs := make([]bounds, n*n) // [client's*n + server's]
	for i := range t.items {
		c, x := t.call(i)
		if c == nil {
			continue
		}
		low, high := bound(c, x)
		p := &pairs[number[c.origin.resource.host]*n+number[x.origin.resource.host]]
		if !p.any {
			*p = bounds{low, high, true}
		} else {
			p.low, p.high = max(p.low, low), min(p.high, high)
		}
	}
	offsets, ok := solve(pairs, n)
	if !ok {
		s.stats.Unproven++
	}
	s.move(t, number, hosts, offsets)
}

// call returns the client span and the server span of a call between two hosts if
// item i is the server span of one, else nil.
func (t *trace) call(i int) (client, server *item) {
	x := &t.items[i]
	if x.up == none || x.kind != kindServer {
		return nil, nil
	}
	c := &t.items[x.up]
	if c.kind != kindClient || c.origin.resource.host == x.origin.resource.host {
		return nil, nil
	}
	return c, x
}

// solve finds the offset to add to the clock of each host; the clock of host 0 is
// taken as right. It settles one host after the other, each by the settled hosts
// that called it or that it called. It returns false if some bounds contradict each
// other; those hosts are moved only as far as the beginnings of spans prove, if at all.
func solve(pairs []bounds, n int) (offsets []int64, ok bool) {
	offsets, ok = make([]int64, n), true
	settled := make([]bool, n)
	settled[0] = true
	for {
		next := -1
		for b := range n {
			if settled[b] {
				continue
			}
			for a := range n {
				if settled[a] && (pairs[a*n+b].any || pairs[b*n+a].any) {
					next = b
				}
			}
			if next >= 0 {
				break
			}
		}
		if next < 0 {
			return offsets, ok
		}
		// Beginnings are proof; ends only if they differ by more than the slack.
		begin := bounds{low: -unbounded, high: unbounded}
		end := begin
		for a := range n {
			if !settled[a] {
				continue
			}
			if p := pairs[a*n+next]; p.any { // a called it
				begin.low = max(begin.low, offsets[a]+p.low)
				end.high = min(end.high, offsets[a]+p.high)
			}
			if p := pairs[next*n+a]; p.any { // it called a
				begin.high = min(begin.high, offsets[a]-p.low)
				end.low = max(end.low, offsets[a]-p.high)
			}
		}
		o, fits := choose(begin, end)
		offsets[next], settled[next] = o, true
		ok = ok && fits
	}
}

// choose picks an offset within the bounds: 0 if it is possible, else the middle, or
// the bound itself if the other side is open.
func choose(begin, end bounds) (offset int64, fits bool) {
	if begin.low > begin.high {
		return 0, false
	}
	if begin.low <= 0 && begin.high >= 0 && end.low <= endSlack && end.high >= -endSlack {
		return 0, true
	}
	low, high := max(begin.low, end.low), min(begin.high, end.high)
	if low > high { // contradiction: only the beginnings count
		return min(max(0, begin.low), begin.high), false
	}
	switch {
	case low <= -unbounded/2:
		return high, true
	case high >= unbounded/2:
		return low, true
	}
	return low + (high-low)/2, true
}

func (s *shard) move(t *trace, number map[*host]int, hosts []*host, offsets []int64) {
	for i, h := range hosts {
		if offsets[i] != 0 {
			h.offset.Store(offsets[i])
			h.traces.Add(1)
		}
	}
	for i := range t.items {
		x := &t.items[i]
		by := offsets[number[x.origin.resource.host]]
		if by == 0 || x.flags&folded != 0 {
			continue
		}
		s.stats.Moved++
		attrs := x.span.Attributes()
		sum := by
		if v, ok := attrs.Get(semconv.ClockOffset); ok && s.a.opts.Clock == CorrectClocks {
			sum += v.Int() // another collector corrected it before
		}
		attrs.PutInt(semconv.ClockOffset, sum)
		if s.a.opts.Clock == MarkClocks {
			continue
		}
		x.span.SetStartTimestamp(shifted(x.span.StartTimestamp(), by))
		x.span.SetEndTimestamp(shifted(x.span.EndTimestamp(), by))
		for _, ev := range x.span.Events().All() {
			ev.SetTimestamp(shifted(ev.Timestamp(), by))
		}
	}
}

// shifted is t + by, but not before 1970.
func shifted(t pcommon.Timestamp, by int64) pcommon.Timestamp {
	if by < 0 && uint64(t) < uint64(-by) {
		return 0
	}
	return t + pcommon.Timestamp(by)
}
