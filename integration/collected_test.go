package integration

import (
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// Go's garbage collector closes what nobody holds, links among it, and an
// agent would go blind without an error. With GOGC=1 it runs all the time.
func TestGarbageCollectorTakesNoLink(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, []string{"GOGC=1"}, ports(c)...)
	ids, links := a.programs()
	collections := a.mustMetrics()["go_gc_duration_seconds_count"]
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 8, Rate: 2000, AppendPath: c.AppendPath})
	testkit.Until(t, 2*deadline, "the collector has run 50 times", func() bool {
		return a.mustMetrics()["go_gc_duration_seconds_count"] >= collections+50
	})
	l.more(500)
	l.end()
	a.settle()

	before := s.count()
	r := send(t, load.Options{Addr: c.Entry, Connections: 8, Requests: 1000, First: 1 << 32, AppendPath: c.AppendPath})
	m := a.settle()
	wantComplete(t, judge(t, s.since(before), shapeOf(t, "nginx")), m, int(r.OK), 0.999)
	a.wantPrograms(ids, links)
	if len(loaded(t, ids)) != len(ids) {
		t.Errorf("of %v programs only %v are loaded", ids, loaded(t, ids))
	}
	if len(ids) < 8 || links < 8 { // seven hooks and the iterator
		t.Errorf("%d programs and %d links", len(ids), links)
	}
}
