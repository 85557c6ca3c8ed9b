// Package record holds what an experiment writes down: a manifest of what was
// run, where and with what, and one Run per line of results.jsonl. It refuses to
// interpret: what a run means is decided by package analysis, from these records
// alone, so that a report can be made again years later.
package record

import (
	"math"
	"strconv"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/workloads/planted"
)

// Version of the files that this package writes; a directory of another one is
// refused.
const Version = 1

// Manifest is manifest.json.
type Manifest struct {
	Version    int                    `json:"version"`
	Tare       string                 `json:"tare"`   // version of the binary
	Commit     string                 `json:"commit"` // of the source it was built from, "-dirty" if modified; "" if unknown
	Experiment *experiment.Experiment `json:"experiment"`
	// Asked is the commit whose questions and figures the experiment has, if it was asked
	// these after it was run; "": those that it was run with.
	Asked    string            `json:"asked,omitempty"`
	Profile  string            `json:"profile"`
	Seed     uint64            `json:"seed"`
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"` // of services and tools: nginx, redis-server …
	Begin    time.Time         `json:"begin"`
	End      time.Time         `json:"end"`
	// LeftOut are variants and workloads that cannot run here, by reason.
	LeftOut map[string]string `json:"left_out,omitempty"`
	// NotOffered are tracers that need another kernel, by the reason that this
	// one gave.
	NotOffered map[string]string `json:"not_offered,omitempty"`
	// Calibrated are the rates (requests/s) that were found for loads that
	// ask for what the machine holds, by cell.
	Calibrated map[string]float64 `json:"calibrated,omitempty"`
	Notes      []string           `json:"notes,omitempty"` // what a reader must know: no network namespace, …
}

// Machine describes the machine that the runs were made on.
type Machine struct {
	CPUs    int     `json:"cpus"`
	Model   string  `json:"model"` // of the CPU
	MemGiB  float64 `json:"mem_gib"`
	Kernel  string  `json:"kernel"`
	Arch    string  `json:"arch"`
	Distro  string  `json:"distro"`
	Virtual string  `json:"virtual,omitempty"` // the hypervisor, where one is seen
}

// Kind of a run.
type Kind string

// The kinds of runs. Only Measured runs enter comparisons: Profiled ones carry
// the cost of the profiler, Checked ones that of keeping every span.
const (
	Measured Kind = "measured"
	Profiled Kind = "profiled"
	Checked  Kind = "checked"
)

// Run is one line of results.jsonl: one variant, once, under load.
type Run struct {
	ID       string  `json:"id"` // unique in the directory: kind/cell/round/variant
	Kind     Kind    `json:"kind"`
	Cell     string  `json:"cell"` // workload/load
	Workload string  `json:"workload"`
	Load     string  `json:"load"`
	Variant  string  `json:"variant"`        // tracer, or tracer@rate
	Tracer   string  `json:"tracer"`         // name in the experiment
	Rate     float64 `json:"rate,omitempty"` // sampling rate asked for, 0…1; 0 for a tracer without one
	Round    int     `json:"round"`          // from 0; runs of one cell and round are compared
	Order    int     `json:"order"`          // place within the round, from 0

	Begin   time.Time `json:"begin"`
	Warmup  float64   `json:"warmup_s"`
	Window  float64   `json:"window_s"` // as measured
	Answers uint64    `json:"answers"`  // within the window
	// Requests and Failures are of the whole run, warm-up included.
	Requests uint64 `json:"requests"`
	Failures uint64 `json:"failures"`
	// Decisions are the tracer's own count of root decisions in the whole run.
	Decisions Decisions `json:"decisions,omitzero"`

	// Sampler is what the running sampler said within the window, where it was followed.
	Sampler []SamplerState `json:"sampler,omitempty"`

	// Asked is how tracing was switched on (environment, flags); ReadBack is
	// the configuration that the running service or tracer reports.
	Asked    map[string]string `json:"asked"`
	ReadBack map[string]any    `json:"read_back"`

	Values   map[string]float64 `json:"values"` // by the keys of Metrics; what was not measured is absent
	Errors   map[string]uint64  `json:"errors,omitempty"`
	Lost     map[string]uint64  `json:"lost,omitempty"`     // by the tracer's own reasons
	Unlinked map[string]uint64  `json:"unlinked,omitempty"` // what was sent while requests were sampled and not linked to one, by reason
	Fidelity map[string]int     `json:"fidelity,omitempty"` // by FidelityComplete and the others, or a reason of incompleteness
	// Links are the calls of the services, where the workload has a ground truth.
	Links *Links `json:"links,omitempty"`
	// Planted are the secrets and decoys that were planted into the requests that have a trace.
	Planted *Planted `json:"planted,omitempty"`
	// Diagnosis is of the spans of a checked run, where the workload asks for it.
	Diagnosis *Diagnosis `json:"diagnosis,omitempty"`
	Programs  []Program  `json:"programs,omitempty"`
	Shares    []Share    `json:"shares,omitempty"` // of the CPU profile, by category
	// Packages: the same CPU time by the package whose own functions used it.
	Packages []Share  `json:"packages,omitempty"`
	Profile  string   `json:"profile,omitempty"` // the CPU profile's file, from the directory of the results
	Limits   []string `json:"limits,omitempty"`  // of the generator: why its numbers may not be the service's

	// Failed says why the run did not reach its end, or that it ran with
	// another configuration than it should have. Such a run is recorded and
	// never compared.
	Failed string `json:"failed,omitempty"`
}

// digits of a measured number that are kept. No clock or counter of the laboratory is exact
// to a millionth of what it measures: digits beyond are noise, which no compression removes.
const digits = 6

// Shorten rounds what was measured to six significant digits, and the time to milliseconds.
// Whole numbers, which count something, and the configuration that was read back stay exact.
func (r *Run) Shorten() {
	r.Begin = r.Begin.Truncate(time.Millisecond)
	r.Warmup, r.Window = shorten(r.Warmup), shorten(r.Window)
	for key, v := range r.Values {
		r.Values[key] = shorten(v)
	}
	for i := range r.Sampler {
		r.Sampler[i].At, r.Sampler[i].Rate = shorten(r.Sampler[i].At), shorten(r.Sampler[i].Rate)
	}
	for i := range r.Programs {
		r.Programs[i].NsPerRun = shorten(r.Programs[i].NsPerRun)
	}
	for _, shares := range [][]Share{r.Shares, r.Packages} {
		for i := range shares {
			shares[i].Micros = shorten(shares[i].Micros)
		}
	}
}

func shorten(v float64) float64 {
	if v == math.Trunc(v) {
		return v
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64) // it is a number
	return short
}

// Keys of Run.Fidelity. The other keys are reasons why traces are incomplete, or where
// they begin or end as something was not linked.
// OrphanedSpans counts spans, SplitRequests counts requests, and CallsByMethod
// those of the complete traces in which a call of gRPC names its method and not its
// request; all others count traces, each of them once, so no reason may have one of
// these three names.
const (
	FidelityComplete = "complete"
	FidelityWrong    = "wrong"
	OrphanedSpans    = "orphaned spans"
	SplitRequests    = "split requests"
	CallsByMethod    = "calls told by method"
)

// CountsTraces reports whether a key of Run.Fidelity is a class of traces: the
// classes add up to all traces.
func CountsTraces(key string) bool {
	return key != OrphanedSpans && key != SplitRequests && key != CallsByMethod
}

// Traces is how many traces Fidelity tells of.
func (r *Run) Traces() int {
	n := 0
	for class, traces := range r.Fidelity {
		if CountsTraces(class) {
			n += traces
		}
	}
	return n
}

// Diagnosis is what `tare diagnose` says of a run's spans.
type Diagnosis struct {
	Late     []string `json:"late"`  // services that were made late
	Named    []string `json:"named"` // services that are named as causes
	First    string   `json:"first"` // the first, by the entry operation with most traces; "" none
	Verdicts []string `json:"verdicts"`
}

// Links counts the calls that services made for requests of which there is a span: what is left of Calls was not linked.
type Links struct {
	Calls  int `json:"calls"`
	Linked int `json:"linked"`
	Wrong  int `json:"wrong"` // below another request
}

// Planted says which of the planted values were received, in one piece: secrets by kind and by
// place, and decoys by kind.
type Planted struct {
	Secrets map[string]planted.Count `json:"secrets"`
	Places  map[string]planted.Count `json:"places"`
	Decoys  map[string]planted.Count `json:"decoys,omitempty"` // only of tracing within the service, which records all of them
}

// Decisions counts root decisions.
type Decisions struct {
	Sampled   uint64 `json:"sampled"`
	Unsampled uint64 `json:"unsampled"`
}

// SamplerState is what a sampler says of itself.
type SamplerState struct {
	At      float64 `json:"at_s"`    // seconds since the window began
	Rate    float64 `json:"rate"`    // in force, 0…1
	Decided uint64  `json:"decided"` // root decisions since its start
	Sampled uint64  `json:"sampled"` // of them
}

// Program is a kernel program of a tracer.
type Program struct {
	Name     string  `json:"name"`
	Runs     uint64  `json:"runs"`
	NsPerRun float64 `json:"ns_per_run"`
}

// Total is the time of all runs, in nanoseconds.
func (p Program) Total() float64 { return float64(p.Runs) * p.NsPerRun }

// Share is a category's part of a CPU profile.
type Share struct {
	Category string  `json:"category"`
	Micros   float64 `json:"us_per_request"`
}
