package analysis

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// Version of summary.json. It changes when a key changes its meaning.
const Version = 2

// Summary is the result of an experiment, as summary.json has it: its keys are
// stable, and other programs may read it.
type Summary struct {
	Version    int       `json:"version"`
	Experiment string    `json:"experiment"`
	Title      string    `json:"title"`
	Profile    string    `json:"profile"`
	Begin      time.Time `json:"begin"`
	End        time.Time `json:"end"`
	// Baseline is the variant that all others are compared with.
	Baseline string `json:"baseline"`
	// Smoke says that no effect rests on enough rounds; "": at least one does.
	Smoke    string            `json:"smoke,omitempty"`
	Runs     Runs              `json:"runs"`
	Cells    []Cell            `json:"cells"`
	Answers  []Answer          `json:"answers,omitempty"`
	Figures  []Figure          `json:"figures,omitempty"`
	CPU      []CPUProfile      `json:"cpu_profiles,omitempty"`
	Programs []ProgramCost     `json:"kernel_programs,omitempty"`
	Fidelity []Fidelity        `json:"fidelity,omitempty"`
	Planted  []Planted         `json:"planted,omitempty"` // secrets and decoys that reached the store
	Rules    []Rule            `json:"rules"`
	LeftOut  map[string]string `json:"left_out,omitempty"` // variants that could not run here, by reason
	// NotOffered are tracers that could not run on this kernel, by its reason.
	NotOffered map[string]string `json:"not_offered,omitempty"`
	Overheads  Own               `json:"laboratory"`
	Notes      []string          `json:"notes,omitempty"`
}

// Runs counts the runs by kind, before and after the rules.
type Runs struct {
	Measured     int `json:"measured"`
	MeasuredKept int `json:"measured_kept"`
	Profiled     int `json:"profiled"`
	ProfiledKept int `json:"profiled_kept"`
	Checked      int `json:"checked"`
	CheckedKept  int `json:"checked_kept"`
}

// Cell is a workload under a load.
type Cell struct {
	Name     string `json:"name"` // workload/load
	Workload string `json:"workload"`
	Load     string `json:"load"`
	// Offered is the rate of requests/s of an open loop, as calibrated; 0 for
	// a closed one.
	Offered     float64 `json:"offered_rps,omitempty"`
	Connections int     `json:"connections,omitempty"`
	// Control is the difference between the two runs of the baseline, for each
	// metric.
	Control []Control `json:"control"`
	// Variants: the baseline, the control, then the others as in the experiment.
	Variants []Variant `json:"variants"`
}

// Role of a variant in a cell.
type Role string

// The roles.
const (
	Baseline Role = "baseline"
	Again    Role = "control"
	Traced   Role = "tracer"
)

// Variant is a tracer at a rate, in a cell.
type Variant struct {
	Name   string  `json:"name"`
	Tracer string  `json:"tracer"`
	Rate   float64 `json:"rate,omitempty"` // 0…1; 0 for a tracer without one
	Role   Role    `json:"role"`
	// Runs are the measured ones, Kept those that no rule excluded.
	Runs    int       `json:"runs"`
	Kept    int       `json:"kept"`
	Metrics []Measure `json:"metrics"` // in the order of record.Metrics; without those that were not measured
}

// Measure is a metric of a variant.
type Measure struct {
	Metric string         `json:"metric"` // key of record.Metrics
	Value  stats.Estimate `json:"value"`
	// From is the kind of the runs that the value is of.
	From record.Kind `json:"from"`
	// Effect against the baseline; absent for the baseline itself and for what
	// has no pairs.
	Effect *Effect `json:"effect,omitempty"`
}

// As says how two variants are compared.
type As string

// Ways to compare: a ratio of 1 and a difference of 0 mean equal.
const (
	Ratio      As = "ratio"
	Difference As = "difference"
)

// neutral is the value that means equal.
func (a As) neutral() float64 {
	if a == Ratio {
		return 1
	}
	return 0
}

// Effect is the difference between a variant and another one, over the rounds
// in which both were run and kept.
//
// The baseline's value in a round is the mean of its two runs, or the one that
// was kept. An additive metric that no run of the baseline has is 0 there: a
// service without a tracer exports nothing.
type Effect struct {
	Against  string         `json:"against"`
	As       As             `json:"as"`
	Estimate stats.Estimate `json:"estimate"` // of the ratio, or the difference in the metric's unit
	// Verdict compares the effect with the control of the cell.
	Verdict Verdict `json:"verdict"`
	// NoControl: the baseline has none of the metric, and the interval alone makes the verdict.
	NoControl bool `json:"no_control,omitempty"`
	// Relative is the ratio beside a difference, where the values of the other
	// variant are not 0.
	Relative *stats.Estimate `json:"relative,omitempty"`
	// Rounds are absent where the same effect is in the table of a cell.
	Rounds []RoundValue `json:"rounds,omitempty"`
}

// Verdict is of package stats; a ratio's floor is a share of 1.
type Verdict = stats.Verdict

// RoundValue is the value of one round. In JSON it is a pair, [round, value],
// to save space.
type RoundValue struct {
	Round int
	Value float64
}

// MarshalJSON implements json.Marshaler.
func (r RoundValue) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]any{r.Round, r.Value})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *RoundValue) UnmarshalJSON(b []byte) error {
	var pair []json.Number
	if err := json.Unmarshal(b, &pair); err != nil {
		return fmt.Errorf("a round's value: %w", err)
	}
	if len(pair) != 2 {
		return fmt.Errorf("a round's value has %d numbers, not [round, value]", len(pair))
	}
	round, err := pair[0].Int64()
	if err != nil {
		return fmt.Errorf("a round's number: %w", err)
	}
	value, err := pair[1].Float64()
	if err != nil {
		return fmt.Errorf("a round's value: %w", err)
	}
	*r = RoundValue{Round: int(round), Value: value}
	return nil
}

// Control is the baseline against itself.
type Control struct {
	Metric   string         `json:"metric"`
	As       As             `json:"as"`
	Estimate stats.Estimate `json:"estimate"`
	Floor    float64        `json:"floor"`
	Rounds   []RoundValue   `json:"rounds"`
}

// Answer is the answer to a question, from the data.
type Answer struct {
	ID     string        `json:"id"`
	Ask    string        `json:"ask"`
	Source string        `json:"source,omitempty"` // what the original answers
	Claims []ClaimAnswer `json:"claims"`
}

// ClaimAnswer is the answer to one claim, from the data.
type ClaimAnswer struct {
	Metric  string `json:"metric"`
	Against string `json:"against"` // tracer; the baseline's name if the claim names none
	Source  string `json:"source,omitempty"`
	// Subject is what the claim is about; First: it is among those that the report begins with.
	Subject string `json:"subject"`
	First   bool   `json:"first,omitempty"`
	// ShareOfAdded: values are shares of what Against adds to the baseline.
	ShareOfAdded bool `json:"share_of_added,omitempty"`

	Comparisons     int       `json:"comparisons"`
	Distinguishable int       `json:"distinguishable"`
	Findings        []Finding `json:"findings"`
	// Missing are comparisons that were asked for and could not be made, with
	// the reason.
	Missing []string `json:"missing,omitempty"`
}

// Finding is one comparison of a claim. Where the other side has no such metric
// (an untraced service has no complete traces), it is a value without
// comparison.
type Finding struct {
	Cell       string          `json:"cell"`
	Workload   string          `json:"workload"`
	Load       string          `json:"load"`
	Variant    string          `json:"variant"`
	Tracer     string          `json:"tracer"`
	Rate       float64         `json:"rate,omitempty"`
	Effect     *Effect         `json:"effect,omitempty"`
	Value      *stats.Estimate `json:"value,omitempty"`
	Proportion *Proportion     `json:"proportion,omitempty"`
	// Against is the variant of whose added cost the value is a share.
	Against string `json:"against,omitempty"`
	// Bound is what the claim wants ("≤ 1.02"), and Target whether that is met, by package stats;
	// "": it wants nothing.
	Bound  string `json:"bound,omitempty"`
	Target string `json:"target,omitempty"`
}

// Figure is the data of a plot.
type Figure struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Source string `json:"source,omitempty"`
	X      string `json:"x"`
	As     string `json:"as"`
	Form   string `json:"form"` // line, bar, or stack
	Log    bool   `json:"log_x,omitempty"`
	// Mean says what was averaged over, within each round.
	Mean   string  `json:"mean,omitempty"`
	Panels []Panel `json:"panels"`
	// Missing says why there is nothing to draw, or what is not drawn.
	Missing string `json:"missing,omitempty"`
}

// Panel is one plot of a figure.
type Panel struct {
	// Title is the YLabel where the figure has one plot for each metric.
	Title  string `json:"title"`
	Metric string `json:"metric"`
	YLabel string `json:"y_label"`
	XLabel string `json:"x_label"`
	// Percent: Y is a ratio less 1, to be shown in percent ("+12%").
	Percent bool `json:"percent,omitempty"`
	// Labels of the x axis where it is not a number; a point's X is the place
	// in this list, from 0.
	Labels []string `json:"labels,omitempty"`
	// Neutral: a line at 0 means "as the baseline".
	Neutral bool `json:"neutral,omitempty"`
	// Floor is the greatest noise floor of the panel's cells, in units of Y;
	// 0 where there is none to draw.
	Floor  float64  `json:"floor,omitempty"`
	Series []Series `json:"series"`
}

// Series is a line, or the bars of one colour.
type Series struct {
	Name string `json:"name"`
	// Flat series have one point that holds for every x: a tracer without a
	// rate on an axis of rates.
	Flat   bool    `json:"flat,omitempty"`
	Points []Point `json:"points"`
}

// Point is an estimate in a figure.
type Point struct {
	X  float64 `json:"x"`
	Y  float64 `json:"y"`
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
	N  int     `json:"n"`
	// Distinguishable from the baseline; absent where the question does not
	// arise.
	Distinguishable *bool `json:"distinguishable,omitempty"`
}

// CPUProfile is where the CPU time of a service goes, by category.
type CPUProfile struct {
	Cell       string        `json:"cell"`
	Variant    string        `json:"variant"`
	N          int           `json:"n"` // profiled runs
	Categories []CPUCategory `json:"categories"`
	// Packages whose own functions use most, or most more than the baseline's.
	Packages []CPUCategory `json:"packages,omitempty"`
	// Added is what all categories together have more than the baseline's,
	// µs/request; absent for the baseline itself.
	Added *stats.Estimate `json:"added,omitempty"`
}

// CPUCategory is a category's, or a package's, part, in µs/request.
type CPUCategory struct {
	Category string         `json:"category"`
	Value    stats.Estimate `json:"value"`
	// Added to the baseline; absent for the baseline itself.
	Added *stats.Estimate `json:"added,omitempty"`
	// Share of all that was added, by the medians; absent unless the interval
	// of all that was added lies above 0, as a share of noise is none.
	Share *float64 `json:"share,omitempty"`
}

// ProgramCost is a kernel program's time.
type ProgramCost struct {
	Cell           string         `json:"cell"`
	Variant        string         `json:"variant"`
	Tracer         string         `json:"tracer"`
	Rate           float64        `json:"rate,omitempty"`
	Program        string         `json:"program"`
	NsPerRun       stats.Estimate `json:"ns_per_run"`
	RunsPerRequest stats.Estimate `json:"runs_per_request"`
}

// Fidelity compares the traces of a variant with the ground truth.
type Fidelity struct {
	Cell     string         `json:"cell"`
	Variant  string         `json:"variant"`
	Runs     int            `json:"runs"`
	Traces   int            `json:"traces"`
	Classes  map[string]int `json:"classes"`
	Complete Proportion     `json:"complete"`
	Wrong    Proportion     `json:"wrong"`
	Links    record.Links   `json:"links,omitzero"` // calls that are linked
}

// Proportion is a share with its 95% Wilson interval.
type Proportion struct {
	Share float64 `json:"share"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
	N     int     `json:"n"`
}

// Rule is one of the experiment's quality rules and what it excluded.
type Rule struct {
	Name  string  `json:"name"` // key in the experiment file; "failed" for runs that did not come to their end
	About string  `json:"about"`
	Limit float64 `json:"limit"` // 0: off
	Unit  string  `json:"unit,omitempty"`
	// Unjudged runs lack what the rule looks at.
	Unjudged int         `json:"unjudged,omitempty"`
	Excluded []Exclusion `json:"excluded,omitempty"`
}

// Exclusion is a run that does not count.
type Exclusion struct {
	Run    string  `json:"run"` // its id
	Value  float64 `json:"value"`
	Reason string  `json:"reason"`
}

// Own is what the laboratory itself cost.
type Own struct {
	MeterCores      *stats.Estimate `json:"cores_meter,omitempty"`
	GeneratorLagP99 *stats.Estimate `json:"generator_lag_p99_ms,omitempty"`
	// Limited counts the runs in which the generator itself limited or shaped
	// the result.
	Limited int `json:"limited_runs"`
}

// milliseconds converts a duration of the rules to the unit of the metrics.
func milliseconds(d experiment.Duration) float64 {
	return float64(d) / float64(time.Millisecond)
}

// Measure finds a metric of a variant; nil if it was not measured.
func (v *Variant) Measure(metric string) *Measure {
	for i := range v.Metrics {
		if v.Metrics[i].Metric == metric {
			return &v.Metrics[i]
		}
	}
	return nil
}

// Effect is the effect on a metric; nil if it was not compared.
func (v *Variant) Effect(metric string) *Effect {
	if m := v.Measure(metric); m != nil {
		return m.Effect
	}
	return nil
}
