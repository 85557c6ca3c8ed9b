package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// The sampling rate changes under load, by signal and by a change of the file:
// no request fails, every request is decided, and every sampled one complete.
func TestRateChangedUnderLoad(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	file := filepath.Join(t.TempDir(), "tare.yaml")
	write := func(rate string) {
		t.Helper()
		var text strings.Builder
		fmt.Fprintf(&text, "sampler: parentbased_traceidratio\nsampler_arg: %s\nservices:\n", rate)
		for _, svc := range c.Services {
			fmt.Fprintf(&text, "  - {name: %s, ports: [%d]}\n", svc.Name, svc.Port)
		}
		replace(t, file, text.String())
	}
	write("0.1")
	a := trace(t, s, nil, "--config", file)
	ids, links := a.programs()
	// As many as an agent keeps up with on a machine that has other work, too.
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 16, Rate: 2000, AppendPath: c.AppendPath})
	l.more(500)

	for _, step := range []struct {
		rate   float64
		signal bool
	}{{0.5, true}, {0.02, true}, {0, true}, {1, false}, {0.1, false}} {
		reloads := a.reloads()
		write(fmt.Sprint(step.rate))
		if step.signal {
			a.signal(syscall.SIGHUP)
		}
		testkit.Until(t, deadline, fmt.Sprintf("the rate %v is taken over", step.rate), func() bool { return a.reloads() > reloads })
		l.more(100) // what was decided before the change
		m := a.mustMetrics()
		l.more(2000)
		n := a.mustMetrics()
		sampled, all := n.sampled()-m.sampled(), n.sampled()+n.unsampled()-m.sampled()-m.unsampled()
		wantRate(t, sampled, all, step.rate)
	}

	// What does not read is refused whole, and tracing goes on.
	write("2")
	a.signal(syscall.SIGHUP)
	testkit.Until(t, deadline, "a rate of 2 is refused", func() bool { return strings.Contains(a.Log.String(), "reload refused") })
	r := l.end()
	m := a.settle()
	wantRoots(t, m, m.sampled()+m.unsampled(), int(r.OK))
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, m.sampled(), 0.999)
	a.wantPrograms(ids, links)

	// A root's tracestate tells the threshold that its trace id has reached.
	below, example := 0, ""
	for _, sp := range s.all() {
		if !sp.Parent.IsZero() {
			continue
		}
		th, ok := thresholdOf(sp.TraceState)
		rv := binary.BigEndian.Uint64(sp.TraceID[8:]) & (1<<56 - 1)
		if !ok || rv < th {
			below++
			example = fmt.Sprintf("trace %v with tracestate %q", sp.TraceID, sp.TraceState)
		}
	}
	if below > 0 {
		t.Errorf("%d traces claim a threshold that they have not reached, or none, such as %s", below, example)
	}
}

// thresholdOf is the threshold that a root's tracestate tells.
func thresholdOf(tracestate string) (th uint64, ok bool) {
	digits, ok := strings.CutPrefix(tracestate, "ot=th:")
	th, err := strconv.ParseUint((digits + strings.Repeat("0", 14))[:14], 16, 64)
	return th, ok && err == nil
}

// The trusted networks change under load: connections that are open already,
// in the proxy's pool, get tags from then on, and none any more.
func TestTrustChangedUnderLoad(t *testing.T) {
	t.Parallel()
	w := twoHosts(t, ipv4)
	s := newSink(t)
	wire := watch(t, w.hosts.b, cable, w.backend)
	file := filepath.Join(t.TempDir(), "tare.yaml")
	write := func(trust string) {
		t.Helper()
		replace(t, file, fmt.Sprintf("trust: [%s]\nservices: [{name: proxy, ports: [%d]}]\n", trust, w.proxy))
	}
	write("none")
	trace(t, s, nil, "--port", "backend="+itoa(w.backend), "--trust", w.hosts.net4)
	a := trace(t, s, nil, "--config", file)
	// Few enough requests that nginx closes no connection.
	l := keepSending(t, load.Options{Addr: w.entry, Connections: 8, Rate: 100, AppendPath: numbered})
	l.more(10)
	opened := w.pool(t)
	for step, trusts := range []bool{false, true, false, true} {
		if step > 0 {
			reloads := a.reloads()
			write(map[bool]string{false: "none", true: w.hosts.net4}[trusts])
			testkit.Until(t, deadline, "trust is taken over", func() bool { return a.reloads() > reloads })
		}
		l.more(10) // what began before the change
		wire.forget()
		const requests = 100
		l.more(requests)
		wire.atLeast(t, 2*requests)
		packets, tags, _ := wire.seen()
		switch {
		case !trusts && tags > 0:
			t.Errorf("step %d: %d tags in %d packets to a network that is not trusted", step, tags, packets)
		case trusts && tags < 9*requests/10: // the last ones may be on their way
			t.Errorf("step %d: %d tags for %d requests to a trusted network", step, tags, requests)
		}
	}
	now := w.pool(t)
	for _, c := range opened {
		if !slices.Contains(now, c) {
			t.Errorf("of the pool's connections %v is closed: nothing was shown of one that stays open", c)
		}
	}
	if len(opened) == 0 {
		t.Error("the proxy keeps no connection")
	}
	l.end()
	a.settle()
}

// resampled is an agent of which a test changes the sampler: cases that differ in nothing else need one start.
type resampled struct {
	*tracer
	file string
}

// traceWith starts an agent with a sampler, as OTEL_TRACES_SAMPLER names it, and its argument.
func traceWith(t *testing.T, sampler string, arg float64, s *sink, env []string, args ...string) resampled {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tare.yaml")
	replace(t, file, samplerText(sampler, arg))
	return resampled{trace(t, s, env, append([]string{"--config", file}, args...)...), file}
}

func samplerText(sampler string, arg float64) string {
	return fmt.Sprintf("sampler: %s\nsampler_arg: %v\n", sampler, arg)
}

// sample has the agent take over another sampler, when nothing is under way any more.
func (r resampled) sample(t *testing.T, sampler string, arg float64) {
	t.Helper()
	r.settle()
	reloads := r.reloads()
	replace(t, r.file, samplerText(sampler, arg))
	r.signal(syscall.SIGHUP)
	r.Await(deadline, "the sampler "+sampler+" is taken over", func() bool { return r.reloads() > reloads })
}

const ratioSampler = "parentbased_traceidratio"

// reloads is how often the agent has taken over a configuration.
func (a *tracer) reloads() int { return strings.Count(a.Log.String(), "msg=reloaded") }

// replace gives a file its new text as an editor does, by renaming: half a file
// would be refused.
func replace(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// pool is the addresses of the proxy's open connections to its backend.
func (w wired) pool(t *testing.T) (local []string) {
	t.Helper()
	out, err := socketsOf(t, w.hosts.a, "state", "established", "dport", "=", itoa(w.backend))
	if err != nil {
		t.Fatal("ss:", err)
	}
	for line := range strings.Lines(out) {
		local = append(local, strings.Fields(line)[2]) // behind its two queues
	}
	return local
}
