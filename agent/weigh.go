package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

const (
	weighEvery = time.Minute
	weighFor   = time.Second
	// How long a request to weigh may ask for.
	weighLeast = 10 * time.Millisecond
	weighMost  = 30 * time.Second

	weightPath = "/weight"
)

// weight is what the agent takes, as GET /weight tells it.
type weight struct {
	Seconds float64 `json:"seconds"` // it was measured for so long
	CPUs    int     `json:"cpus"`
	// Services whose sockets' hooks ran, those of one name together, the heaviest first.
	Services []serviceWeight `json:"services"`
	// What kernel programs took, in CPUs, on sockets that are not traced.
	OtherCores float64     `json:"other_kernel_cores"`
	Agent      agentWeight `json:"agent"`
	Cores      float64     `json:"cores"`          // all of it
	Share      float64     `json:"share"`          // of this host's CPUs, 0 to 1
	Sampled    float64     `json:"sampling_ratio"` // of the traces that begin here, 0 to 1
}

type serviceWeight struct {
	Name     string  `json:"name"`
	Requests float64 `json:"requests_per_second"` // that it received, sampled or not
	// What kernel programs took on its sockets, for what it receives and what it asks others.
	PerRequest float64 `json:"kernel_ns_per_request"` // 0: no requests
	Cores      float64 `json:"kernel_cores"`
}

// agentWeight is what this process takes: with tare run, its collector, store and page, too.
type agentWeight struct {
	Cores  float64 `json:"cores"`
	Memory uint64  `json:"memory_bytes"` // resident
	Spans  float64 `json:"spans_per_second"`
	Bytes  float64 `json:"exported_bytes_per_second"` // before compression
}

// weighs times hooks.
type weighs interface {
	Weigh(on bool) error
	Weight(index uint16) (kernel.Weight, error)
	Threshold() (uint64, error)
}

// weigher weighs the agent: now and then by itself, and when it is asked to.
type weigher struct {
	tracer   weighs
	resource func(index uint16) *span.Resource // of a service; nil: none has it
	built    func() uint64                     // spans, so far
	exported func() uint64                     // bytes

	mu      sync.Mutex
	readers int // who has the hooks timed
	weight  map[string]kernel.Weight
	time    time.Duration // for how long, in all
}

func newWeigher(t weighs, resource func(uint16) *span.Resource, built, exported func() uint64) *weigher {
	return &weigher{tracer: t, resource: resource, built: built, exported: exported, weight: map[string]kernel.Weight{}}
}

// run weighs for a second of each minute.
func (w *weigher) run(ctx context.Context) error {
	return every(ctx, weighEvery, func() error {
		_, err := w.weigh(ctx, weighFor)
		return err
	})
}

// every calls a function again and again, until ctx ends or the function fails.
func every(ctx context.Context, interval time.Duration, call func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := call(); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// switches has the hooks timed while anybody wants that.
func (w *weigher) switches(on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.readers > 0
	if on {
		w.readers++
	} else {
		w.readers--
	}
	if now := w.readers > 0; now != was {
		return w.tracer.Weigh(now)
	}
	return nil
}

// read times the hooks for so long, and returns for how long it was, and what they took,
// by the names of services. Several may do that at once.
func (w *weigher) read(ctx context.Context, long time.Duration) (lasted time.Duration, services map[string]kernel.Weight, err error) {
	if err := w.switches(true); err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, w.switches(false)) }()
	began := time.Now()
	before, err := w.weights()
	if err != nil {
		return 0, nil, err
	}
	pause := time.NewTimer(long)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	lasted = time.Since(began)
	after, err := w.weights()
	if err != nil {
		return 0, nil, err
	}
	services = map[string]kernel.Weight{}
	for index, now := range after {
		services[index.name] = plus(services[index.name], minus(now, before[index]))
	}
	w.note(lasted, services)
	return lasted, services, nil
}

// weigh tells what the agent takes for so long, or until ctx ends.
func (w *weigher) weigh(ctx context.Context, long time.Duration) (*weight, error) {
	began, used, spans, bytes := time.Now(), processTime(), w.built(), w.exported()
	lasted, services, err := w.read(ctx, long)
	if err != nil {
		return nil, err
	}
	seconds, whole := lasted.Seconds(), time.Since(began).Seconds()
	out := &weight{Seconds: seconds, CPUs: runtime.NumCPU(), Services: []serviceWeight{}}
	for name, s := range services {
		cores := s.Time.Seconds() / seconds
		out.Cores += cores
		switch {
		case name == "":
			out.OtherCores = cores
		case s.Runs > 0:
			x := serviceWeight{Name: name, Requests: float64(s.Requests) / seconds, Cores: cores}
			if s.Requests > 0 {
				x.PerRequest = float64(s.Time.Nanoseconds()) / float64(s.Requests)
			}
			out.Services = append(out.Services, x)
		}
	}
	slices.SortFunc(out.Services, func(a, b serviceWeight) int {
		return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.Name, b.Name))
	})
	out.Agent = agentWeight{
		Cores: (processTime() - used).Seconds() / whole, Memory: processMemory(),
		Spans: float64(w.built()-spans) / whole, Bytes: float64(w.exported()-bytes) / whole,
	}
	out.Cores += out.Agent.Cores
	out.Share = out.Cores / float64(out.CPUs)
	threshold, err := w.tracer.Threshold()
	if err != nil {
		return nil, err
	}
	out.Sampled = config.Probability(threshold)
	return out, nil
}

// indexed is a service's index, which may be another service's later; name "" with
// index 0: none's.
type indexed struct {
	index uint16
	name  string
}

func (w *weigher) weights() (map[indexed]kernel.Weight, error) {
	all := map[indexed]kernel.Weight{}
	for index := range uint16(bpf.Services) {
		at := indexed{index: index}
		if index > 0 {
			r := w.resource(index)
			if r == nil {
				continue
			}
			at.name = r.Service
		}
		n, err := w.tracer.Weight(index)
		if err != nil {
			return nil, err
		}
		all[at] = n
	}
	return all, nil
}

func plus(a, b kernel.Weight) kernel.Weight {
	return kernel.Weight{Time: a.Time + b.Time, Sampled: a.Sampled + b.Sampled, Runs: a.Runs + b.Runs, Requests: a.Requests + b.Requests}
}

// minus is what was timed since before; an index that another container of the service
// has got since began anew.
func minus(now, before kernel.Weight) kernel.Weight {
	if now.Runs < before.Runs || now.Requests < before.Requests {
		return now
	}
	return kernel.Weight{
		Time: now.Time - before.Time, Sampled: now.Sampled - before.Sampled,
		Runs: now.Runs - before.Runs, Requests: now.Requests - before.Requests,
	}
}

func (w *weigher) note(lasted time.Duration, services map[string]kernel.Weight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time += lasted
	maps.DeleteFunc(w.weight, func(name string, _ kernel.Weight) bool { _, there := services[name]; return !there })
	for name, s := range services {
		if s.Runs > 0 {
			w.weight[name] = plus(w.weight[name], s)
		}
	}
}

// processTime is the CPU time of this process.
func processTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // it cannot fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processMemory is the resident memory of this process in bytes, 0 if that cannot be read.
func processMemory() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	var size, resident uint64
	if err == nil {
		_, err = fmt.Sscan(string(b), &size, &resident)
	}
	if err != nil {
		return 0
	}
	return resident * uint64(os.Getpagesize())
}

var (
	descWeighed = prometheus.NewDesc("tare_weighed_seconds_total",
		"How long kernel programs were timed, service by service: a second of each minute, and when somebody asks.", nil, nil)
	descWeighedKernel = prometheus.NewDesc("tare_weighed_kernel_seconds_total",
		"What kernel programs took meanwhile on sockets of a service; service \"\": on others.", []string{"service"}, nil)
	descWeighedRequests = prometheus.NewDesc("tare_weighed_requests_total",
		"Requests that a service received meanwhile, sampled or not.", []string{"service"}, nil)
)

// Describe implements prometheus.Collector.
func (w *weigher) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(w, ch) }

// Collect implements prometheus.Collector.
func (w *weigher) Collect(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counter := func(d *prometheus.Desc, v float64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, label...)
	}
	counter(descWeighed, w.time.Seconds())
	for name, s := range w.weight {
		counter(descWeighedKernel, max(s.Time.Seconds(), 0), name)
		if name != "" {
			counter(descWeighedRequests, float64(s.Requests), name)
		}
	}
}

// ServeHTTP weighs for as long as ?for= says, a second without.
func (w *weigher) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	long := weighFor
	if asked := r.URL.Query().Get("for"); asked != "" {
		d, err := time.ParseDuration(asked)
		if err != nil || d < weighLeast || d > weighMost {
			http.Error(rw, fmt.Sprintf("for=%.20q: give a duration from %v to %v, such as 2s", asked, weighLeast, weighMost), http.StatusBadRequest)
			return
		}
		long = d
	}
	out, err := w.weigh(r.Context(), long)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(out) // the peer may be gone
}
