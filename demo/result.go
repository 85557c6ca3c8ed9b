package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// Result of a demonstration; its JSON keys are stable.
type Result struct {
	Chain       string  `json:"chain"`
	Sample      float64 `json:"sample"`
	Concurrency int     `json:"concurrency"`
	Rounds      int     `json:"rounds"`
	Machine     Machine `json:"machine"`

	// The fidelity run.
	Requests     uint64            `json:"requests"`
	Failed       uint64            `json:"failed"`
	Sampled      uint64            `json:"sampled"`
	Complete     int               `json:"complete"`
	Unlinked     int               `json:"unlinked"` // traces that begin or end where a service did not link what it sent
	UnlinkedBy   map[string]int    `json:"unlinked_where"`
	Incomplete   int               `json:"incomplete"`
	IncompleteBy map[string]int    `json:"incomplete_reasons"`
	Orphaned     int               `json:"orphaned"` // spans
	Wrong        int               `json:"wrong"`    // traces
	Split        int               `json:"split"`    // requests with more than one trace
	Lost         map[string]uint64 `json:"lost"`

	// The cost, medians over the rounds; 0 if there were none. RPS and CPU
	// are with the tracer, Baseline without.
	RPS      float64 `json:"rps"`
	CPU      float64 `json:"cpu_us_per_request"`
	Baseline Rate    `json:"baseline"`
	Ratio    Ratios  `json:"ratio"`
	// Control is the ratio of two untraced windows: the noise of the machine.
	Control      Ratios           `json:"control"`
	WindowFailed uint64           `json:"window_failed"` // requests within the rounds
	Agent        AgentCost        `json:"agent"`
	Programs     []record.Program `json:"programs"`
	Warnings     []string         `json:"warnings"`
}

// Machine describes the machine of the measurement.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
}

// Rate is requests per second and the CPU time of the whole machine for each.
type Rate struct {
	RPS float64 `json:"rps"`
	CPU float64 `json:"cpu_us_per_request"`
}

// Ratios are of requests per second and of CPU per request.
type Ratios struct {
	RPS stats.Ratio `json:"rps"`
	CPU stats.Ratio `json:"cpu"`
}

// AgentCost is what the agent's process uses while the chain is saturated: the
// median of its CPU, the most memory at the end of any window, and its peak.
type AgentCost struct {
	Cores   float64 `json:"cpu_cores"`
	RSS     float64 `json:"rss_mib"`
	PeakRSS float64 `json:"peak_rss_mib"`
	// Memory over the fidelity run, which shows whether it stays flat.
	Memory []MemoryPoint `json:"memory"`
}

// MemoryPoint is the agent's memory after a number of requests.
type MemoryPoint struct {
	Requests uint64  `json:"requests"`
	RSS      float64 `json:"rss_mib"`
}

func newResult(o Options) *Result {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	return &Result{
		Chain:        o.Chain,
		Sample:       o.Sample,
		Concurrency:  o.Concurrency,
		Rounds:       o.Rounds,
		Machine:      Machine{CPUs: runtime.NumCPU(), Kernel: strings.TrimSpace(string(kernel)), Arch: runtime.GOARCH},
		UnlinkedBy:   map[string]int{},
		IncompleteBy: map[string]int{},
		Lost:         map[string]uint64{},
		Programs:     []record.Program{},
		Warnings:     []string{},
	}
}

func (r *Result) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// WriteJSON writes one object on one line.
func (r *Result) WriteJSON(w io.Writer) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
