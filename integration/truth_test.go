package integration

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// start starts a chain of package workloads.
func start(t *testing.T, name string) *workloads.Chain {
	t.Helper()
	missing, err := workloads.Missing(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		refuse(t, "not installed: %v", missing)
	}
	c, err := workloads.Start(t.Context(), name, workloads.Options{ReadyWithin: testkit.Patient(10 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop the chain: %v", err)
		}
		testkit.Note(t, "cpu", c.CPU(), "services")
	})
	return c
}

// ports are the flags that select every service of a chain by its port.
func ports(c *workloads.Chain) []string {
	var args []string
	for _, s := range c.Services {
		args = append(args, "--port", s.Name+"="+itoa(s.Port))
		if s.Linking != "" {
			args = append(args, "--linking", s.Name+"="+s.Linking)
		}
	}
	return args
}

func ratio(p string) []string {
	return []string{"--sampler", "parentbased_traceidratio", "--sampler-arg", p}
}

func shapeOf(t *testing.T, chain string) fidelity.Shape {
	t.Helper()
	truth, err := workloads.TruthOf(chain)
	if err != nil {
		t.Fatal(err)
	}
	return truth(0)
}

// send drives a run of load to its end; no request may fail.
func send(t *testing.T, o load.Options) load.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(time.Minute))
	defer cancel()
	o.Timeout = testkit.Patient(cmp.Or(o.Timeout, time.Minute)) // segments may be lost several times
	defer testkit.Waited(t, time.Now(), "load")
	r, err := load.Run(ctx, o)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	noneFailed(t, r)
	return r
}

func noneFailed(t *testing.T, r load.Result) {
	t.Helper()
	if r.Failed > 0 || r.Aborted > 0 || r.OK == 0 {
		t.Errorf("%d requests answered, %d failed, %d aborted: %v", r.OK, r.Failed, r.Aborted, r.Errors)
	}
}

// background is load that goes on until the test ends it.
type background struct {
	t *testing.T
	g *load.Generator
}

func keepSending(t *testing.T, o load.Options) *background {
	t.Helper()
	if o.Duration == 0 {
		o.Duration = testkit.Patient(10 * time.Minute) // the test ends it; agents that start under load take seconds
	}
	o.Timeout = testkit.Patient(cmp.Or(o.Timeout, time.Minute)) // segments may be lost several times
	g, err := load.Start(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	b := &background{t, g}
	t.Cleanup(func() {
		g.Stop()
		_, _ = g.Wait()
	})
	return b
}

// more waits until that many further requests were answered.
func (b *background) more(n int) {
	b.t.Helper()
	from, _ := b.g.Done()
	testkit.Until(b.t, 20*time.Second, itoa(n)+" further requests are answered", func() bool {
		ok, _ := b.g.Done()
		return ok >= from+uint64(n)
	})
}

// end stops the load; no request may have failed.
func (b *background) end() load.Result {
	b.t.Helper()
	b.g.Stop()
	r, err := b.g.Wait()
	if err != nil {
		b.t.Fatalf("load: %v", err)
	}
	noneFailed(b.t, r)
	return r
}

// judge holds spans against the ground truth. That none is wrong is always
// required.
func judge(t *testing.T, spans []span.Span, shape fidelity.Shape) fidelity.Report {
	t.Helper()
	r := fidelity.Classify(spans, shape.Always())
	t.Logf("%d spans, %d traces: %d complete, %d wrong, %d orphaned spans, %d split requests, incomplete: %v",
		r.Spans, r.Traces, r.Complete, r.Wrong, r.Orphaned, r.Split, r.Incomplete)
	if r.Wrong > 0 {
		t.Errorf("%d traces hold the numbers of two requests, such as %v", r.Wrong, r.WrongIDs[0])
		show(t, spans, r.WrongIDs[0])
	}
	for _, id := range example(spans, r) {
		t.Logf("incomplete is %v", id)
		show(t, spans, id)
	}
	return r
}

// example finds up to three traces that are incomplete.
func example(spans []span.Span, r fidelity.Report) (ids []span.TraceID) {
	known := map[span.TraceID]bool{}
	for _, id := range slices.Concat(r.CompleteIDs, r.WrongIDs) {
		known[id] = true
	}
	for i := range spans {
		if id := spans[i].TraceID; !known[id] && len(ids) < 3 {
			known[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

func show(t *testing.T, spans []span.Span, id span.TraceID) {
	t.Helper()
	for i := range spans {
		if spans[i].TraceID == id {
			t.Logf("  %s", describe(&spans[i]))
		}
	}
}

func describe(s *span.Span) string {
	text := fmt.Sprintf("%s %s %s %s below %s, %d.%06d + %d µs", s.Resource.Service, s.Kind, s.Name, s.ID, s.Parent,
		s.Start/1e9%1000, s.Start/1e3%1e6, s.Duration()/1e3)
	for _, a := range s.Attrs {
		switch a.Key {
		case "url.path", "db.query.text", "network.peer.port", "error.type", "tare.bytes.sent", "tare.bytes.received", "tare.linking", "tare.linking.reason", "tare.pipelined":
			text += " " + a.Key + "=" + a.Text()
		}
	}
	return text
}

// accounted is the share from which on a test requires that each request that is not complete is counted; below it,
// requests begin or end where nothing sees them: before an agent, or after it.
const accounted = 0.99

// wantComplete requires that a share of the sampled requests is complete, and that no more of them are not than calls
// are unlinked, and records lost, by the counters of all agents that traced them.
func wantComplete(t *testing.T, r fidelity.Report, m metrics, sampled int, share float64) {
	t.Helper()
	r.Expect(sampled)
	const calls = 4 // of a request at most: each that is not linked begins a trace
	if r.Traces > sampled+spare+calls*r.Split {
		t.Errorf("%d traces of %d sampled requests", r.Traces, sampled)
	}
	if least := int(math.Ceil(share*float64(sampled))) - spare; r.Complete < least || sampled == 0 {
		t.Errorf("%d of %d sampled requests complete, want %d; incomplete: %v\n%v", r.Complete, sampled, least, r.Incomplete, m)
	}
	if missing := sampled - r.Complete - spare; share >= accounted && missing > m.unlinked()+m.lostAll() {
		t.Errorf("%d of %d sampled requests are not complete, and %d calls are counted as unlinked, %d records as lost; incomplete: %v\n%v",
			missing, sampled, m.unlinked(), m.lostAll(), r.Incomplete, m)
	}
}

// wantRoots requires a root decision for each request; a call that is not linked, and
// counted, takes another where it arrives.
func wantRoots(t *testing.T, m metrics, roots, requests int) {
	t.Helper()
	if roots < requests || roots > requests+m.unlinked() {
		t.Errorf("%d root decisions for %d requests\n%v", roots, requests, m)
	}
}

// wantRate requires that a number of sampled requests is what chance allows at
// six standard deviations: one in 500 million runs fails for no reason.
func wantRate(t *testing.T, sampled, requests int, p float64) {
	t.Helper()
	mean := p * float64(requests)
	if d := 6 * math.Sqrt(mean*(1-p)); math.Abs(float64(sampled)-mean) > d {
		t.Errorf("%d of %d requests sampled at %v: not within %.0f±%.0f", sampled, requests, p, mean, d)
	}
}

// call is a client span, and what was asked, if that is traced.
func call(service, prefix string, asked ...fidelity.Shape) fidelity.Shape {
	return fidelity.Shape{Service: service, Kind: span.Client, Prefix: prefix, Children: asked}
}

// serve is a server span, and what it asks others.
func serve(service, prefix string, calls ...fidelity.Shape) fidelity.Shape {
	return fidelity.Shape{Service: service, Kind: span.Server, Prefix: prefix, Children: calls}
}
