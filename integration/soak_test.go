package integration

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/workloads"
)

var soakFor = flag.Duration("soak", 30*time.Second, "how long TestSoak goes on")

// soak is a chain and an agent that stay, while everything around them comes and goes.
type soak struct {
	*testing.T
	chain *workloads.Chain
	sink  *sink
	agent *tracer
	load  load.Options
	env   []string
	args  []string
	file  string
	next  uint64 // number of the next request
	cycle int
}

// begin sends requests, of which it waits for the first.
func (s *soak) begin(o load.Options) *background {
	o.Addr, o.AppendPath, o.First = s.load.Addr, s.load.AppendPath, s.next
	o.Connections = cmp.Or(o.Connections, 16)
	l := keepSending(s.T, o)
	l.more(20)
	return l
}

// end ends it, and returns how many requests were answered.
func (s *soak) end(l *background) int {
	s.Helper()
	r := l.end()
	s.next = r.Next
	return int(r.OK) //nolint:gosec // of seconds
}

// A disturbance happens while requests are sent. It returns how many of them were answered, and -1 where the agent that saw
// them is not there any more, or requests failed, so that its counters do not tell.
var disturbances = []struct {
	name string
	do   func(s *soak) (answered int)
}{
	{"nothing", func(s *soak) int {
		l := s.begin(load.Options{})
		l.more(1000)
		return s.end(l)
	}},
	{"a service starts again", func(s *soak) int {
		l := s.begin(load.Options{})
		if err := s.chain.Restart(s.Context(), []string{"shop", "redis", "stock"}[s.cycle%3]); err != nil {
			s.Fatal(err)
		}
		l.g.Stop()
		r, err := l.g.Wait() // some have failed
		if err != nil {
			s.Fatal(err)
		}
		s.next = r.Next
		// The shop's threads find out that a kept connection is dead when they use it, each at a request that fails: with
		// the proxy's connections the threads end, and theirs with them.
		if err := s.chain.Restart(s.Context(), "proxy"); err != nil {
			s.Fatal(err)
		}
		testkit.Until(s.T, time.Minute, "the chain answers", func() bool {
			o := s.load
			o.Connections, o.Requests, o.First = 64, 640, s.next
			r, err := load.Run(s.Context(), o)
			s.next += o.Requests
			return err == nil && r.OK == o.Requests
		})
		return -1
	}},
	{"connections of one request", func(s *soak) int {
		l := s.begin(load.Options{Close: true})
		l.more(1000)
		return s.end(l)
	}},
	{"a namespace with a traced process", func(s *soak) int {
		ns, port := fmt.Sprintf("tare-soak-%d-%d", os.Getpid()%1000000, s.cycle), s.args[slices.Index(s.args, "--port")+1]
		sh(s.T, "ip", "netns", "add", ns)
		defer sh(s.T, "ip", "netns", "del", ns)
		sh(s.T, "ip", "-n", ns, "link", "set", "lo", "up")
		l := s.begin(load.Options{})
		sh(s.T, "ip", "netns", "exec", ns, "python3", "-c", `
import http.server, sys, threading, urllib.request
class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for i in range(50): urllib.request.urlopen("http://127.0.0.1:%s/" % sys.argv[1]).read()
`, port[strings.IndexByte(port, '=')+1:])
		l.more(300)
		s.end(l)
		return -1 // those of the namespace may be traced, too
	}},
	{"another sampling rate", func(s *soak) int {
		l := s.begin(load.Options{})
		for _, rate := range []string{"0.1", "1"} {
			reloads := s.agent.reloads()
			replace(s.T, s.file, s.config(rate))
			s.agent.signal(syscall.SIGHUP)
			testkit.Until(s.T, time.Minute, "the rate "+rate+" is taken over", func() bool { return s.agent.reloads() > reloads })
			l.more(300)
		}
		return s.end(l)
	}},
	{"the receiver is away", func(s *soak) int {
		s.sink.away.Store(true)
		l := s.begin(load.Options{Rate: 200}) // less than the agent's queue holds
		l.more(400)
		s.sink.away.Store(false)
		return s.end(l)
	}},
	{"the agent stands still", func(s *soak) int {
		l := s.begin(load.Options{Rate: 200})
		s.agent.signal(syscall.SIGSTOP)
		l.more(400)
		s.agent.signal(syscall.SIGCONT)
		l.more(100)
		return s.end(l)
	}},
	{"another agent takes over", func(s *soak) int {
		l := s.begin(load.Options{Rate: 200})
		before := s.agent
		s.agent = trace(s.T, s.sink, s.env, slices.Concat(s.args, []string{"--replace"})...)
		testkit.Until(s.T, time.Minute, "the agent before has ended", before.Over)
		l.more(200)
		s.end(l)
		return -1
	}},
	{"the agent is killed", func(s *soak) int {
		l := s.begin(load.Options{Rate: 200})
		s.agent.Kill()
		s.agent = trace(s.T, s.sink, s.env, s.args...)
		l.more(200)
		s.end(l)
		return -1
	}},
}

func (s *soak) config(rate string) string {
	return "sampler: parentbased_traceidratio\nsampler_arg: " + rate + "\n"
}

// What the agent holds.
type held struct {
	memory float64 // MiB
	files  int     // and maps, programs, links of the kernel's
}

func (s *soak) held() (h held) {
	s.Helper()
	h.memory = resident(s.T, s.agent.PID())
	files, err := os.ReadDir("/proc/" + itoa(s.agent.PID()) + "/fd")
	if err != nil {
		s.Fatal(err)
	}
	h.files = len(files)
	return h
}

// settle waits until nothing is under way any more. Where the ring was full, as it is on a machine that has no time
// for the agent, the records that were lost may have been ends of spans, which wait for them until they expire.
func (s *soak) settle() metrics {
	s.Helper()
	return s.agent.quiet(s.agent.mustMetrics().int(`tare_lost_total{reason="ring_full"}`))
}

// Hours of comings and goings (make soak): no trace holds two requests, every span that was built is at the receiver or
// counted as lost, every request is decided once, and what the agent holds does not grow.
func TestSoak(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "memcached", "ip", "python3")
	c, sink := start(t, "shop"), newSink(t)
	s := &soak{T: t, chain: c, sink: sink, load: load.Options{Addr: c.Entry, AppendPath: c.AppendPath}, env: []string{"TARE_INSTANCE=" + t.Name()},
		file: filepath.Join(t.TempDir(), "tare.yaml")}
	replace(t, s.file, s.config("1"))
	s.args = append(ports(c), "--config", s.file)
	s.agent = trace(t, sink, s.env, s.args...)
	shape := shapeOf(t, "shop")
	var all []held
	counts := map[string]int{}
	for begun := time.Now(); time.Since(begun) < *soakFor || s.cycle < len(disturbances); s.cycle++ {
		d := disturbances[s.cycle%len(disturbances)]
		agent, before := s.agent, s.settle()
		sink.take()
		arrived := sink.count()
		answered := d.do(s)
		after := s.settle()
		r := judge(t, sink.all(), shape)
		of := func(key string) int { return after.int(key) - before.int(key) }
		lost := 0
		for key := range after {
			if strings.HasPrefix(key, "tare_lost_total{") {
				lost += of(key)
			}
		}
		counts["cycles"]++
		counts["traces"] += r.Traces
		counts["complete"] += r.Complete
		if s.agent == agent {
			built, gone := of("tare_spans_total"), after.notExported()-before.notExported()
			counts["records"] += of(recordsWritten)
			counts["records lost"] += of(`tare_lost_total{reason="ring_full"}`)
			counts["spans built"] += built
			counts["spans lost"] += gone
			if sink.count()-arrived != built-gone {
				t.Errorf("%s: %d spans were built, %d are counted as lost, %d arrived\n%v", d.name, built, gone, sink.count()-arrived, after)
			}
		}
		wantRecords(t, after)
		if answered >= 0 {
			sampled := after.sampled() - before.sampled()
			counts["requests"] += answered
			if roots := sampled + after.unsampled() - before.unsampled(); roots != answered {
				t.Errorf("%s: %d requests were answered, %d decided\n%v", d.name, answered, roots, after)
			}
			// Of a trace some span may be missing; then something is counted.
			if missing := sampled - r.Complete; missing > 0 && lost == 0 {
				t.Errorf("%s: %d of %d traces are not complete, and nothing is counted as lost\n%v", d.name, missing, sampled, after)
			}
		}
		if s.agent == agent {
			all = append(all, s.held())
		}
		if t.Failed() {
			t.Fatalf("after cycle %d, %s", s.cycle, d.name)
		}
	}
	t.Logf("%v", counts)
	third := max(len(all)/3, 1)
	middle := func(of []held, what func(held) float64) float64 {
		values := make([]float64, len(of))
		for i, h := range of {
			values[i] = what(h)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, w := range []struct {
		name  string
		what  func(held) float64
		grown float64 // at most
	}{
		{"MiB of memory", func(h held) float64 { return h.memory }, 8},
		{"open files", func(h held) float64 { return float64(h.files) }, 8},
	} {
		first, last := middle(all[:third], w.what), middle(all[len(all)-third:], w.what)
		t.Logf("%s: %.1f in the first third, %.1f in the last", w.name, first, last)
		if last > first+w.grown {
			t.Errorf("%s: %.1f in the first third, %.1f in the last", w.name, first, last)
		}
	}
}
