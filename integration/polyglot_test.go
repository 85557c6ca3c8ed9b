package integration

import (
	"flag"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/workloads"
	"github.com/tare-trace/tare/workloads/polyglot"
)

var everyRuntime = flag.Bool("polyglot", false, "trace the services of package polyglot that are built")

// Every runtime and framework (make test-polyglot): what is expected to be linked is, and no call is linked to another
// request.
func TestPolyglot(t *testing.T) {
	t.Parallel()
	if !*everyRuntime {
		t.Skip("takes ten minutes: make test-polyglot")
	}
	need(t)
	for _, service := range polyglot.All() {
		t.Run(service.Name, func(t *testing.T) {
			chain := "polyglot-" + service.Name
			if err := workloads.Absent(chain, bin); err != nil {
				t.Skip(err)
			}
			c, err := workloads.Start(t.Context(), chain, workloads.Options{Bin: bin, ReadyWithin: testkit.Patient(10 * time.Second)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Stop(); err != nil {
					t.Errorf("stop the chain: %v", err)
				}
			})
			s := newSink(t)
			a := trace(t, s, nil, ports(c)...)
			const requests = 1500
			ask := func(n uint64) {
				send(t, load.Options{Addr: c.Entry, Connections: 64, Requests: n, AppendPath: c.AppendPath, AppendHeader: c.AppendHeader})
			}
			if a.proven(t, func() { ask(300) }); service.Framework == "Puma" {
				a.takes(t, func() { ask(300) })
			}
			if service.Header {
				testkit.Until(t, time.Minute, "its requests' headers are noted", func() bool {
					before := a.mustMetrics().unlinked()
					ask(300)
					return a.settle().unlinked() == before
				})
			}
			s.take()
			ask(requests)
			m := a.settle()
			l := fidelity.CountLinks(s.all(), c.Truth)
			calls := float64(l.Calls)
			t.Logf("%d of %d calls are linked, %d wrongly; %d are counted as unlinked", l.Linked, l.Calls, l.Wrong, m.unlinked())
			if linked := float64(l.Linked); l.Calls < requests || l.Wrong > 0 ||
				service.Today == polyglot.Linked && linked < 0.99*calls ||
				service.Today == polyglot.Partly && (linked < 0.01*calls || linked > 0.99*calls) ||
				service.Today == polyglot.Unlinked && linked > 0.05*calls {
				t.Errorf("want them %s, and none wrongly\n%v", service.Today, m)
			}
		})
	}
}
