package adaptive

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Config holds the settings that can change while the sampler runs.
type Config struct {
	// BaseRate is the share of traces that is sampled while nothing is wrong:
	// 0 to 1, at most MaxRate.
	BaseRate float64
	// MinRate is the floor of every rate but those of Never rules: 0 to 1. A
	// smaller MaxRate wins over it, and so does the budget.
	MinRate float64
	// MaxRate is never exceeded, also not by an incident: 0 to 1. Always
	// rules are exempt.
	MaxRate float64

	// ErrorBoost multiplies the rate after an interval with errors: 1 to 1e6.
	ErrorBoost float64
	// ErrorShare is the share of failed requests above which ErrorBoost is
	// on: 0 to 1. 0 means that one error suffices.
	ErrorShare float64

	// LatencyThreshold is what LatencyTrigger compares with: 0 to 24 h.
	LatencyThreshold time.Duration
	// LatencyBoost multiplies the rate after a slow interval: 1 to 1e6.
	LatencyBoost float64
	// LatencyTrigger says what has to exceed LatencyThreshold.
	LatencyTrigger Trigger

	// UpdateInterval is the time between two looks at errors and latency:
	// 1 ms to 24 h.
	UpdateInterval time.Duration

	// Budget bounds all rates together.
	Budget Budget
}

// Budget bounds what the rates together may cost. A zero limit is off. The
// tightest of the limits rules, and it wins over MinRate.
type Budget struct {
	// TracesPerSecond bounds the traces that this sampler begins: 0, or 0.001
	// to 1e6. Traces that a parent decided about are not counted.
	TracesPerSecond float64
	// CPUCores is the CPU time of the whole process, in cores, above which
	// rates fall: 0, or 0.001 to 1e5. Linux only.
	CPUCores float64
	// P99 is the 99th percentile of observed durations above which rates
	// fall: 0, or 1 µs to 24 h.
	P99 time.Duration
}

// Trigger says which figure of an interval's durations has to exceed the
// latency threshold: TriggerAny, TriggerMean, or a percentile, "p" and a number
// above 0 and below 100, such as "p95" or "p99.9".
type Trigger string

const (
	// TriggerAny is the default: one slow request suffices (Hoikka 2026, 4.4.4:
	// "when errors or slow requests trigger higher sampling rates").
	TriggerAny Trigger = "any"
	// TriggerMean compares the mean duration.
	TriggerMean Trigger = "mean"
)

const (
	maxBoost     = 1e6
	maxDuration  = 24 * time.Hour
	minInterval  = time.Millisecond
	minP99       = time.Microsecond
	minPerSecond = 1e-3
	maxPerSecond = 1e6
	minCores     = 1e-3
	maxCores     = 1e5
)

// DefaultConfig has the values of Hoikka 2026 (4.1.2 and 4.4.4) and no budget.
func DefaultConfig() Config {
	return Config{
		BaseRate:         0.05,
		MinRate:          0.01,
		MaxRate:          1,
		ErrorBoost:       3,
		LatencyThreshold: time.Second,
		LatencyBoost:     2,
		LatencyTrigger:   TriggerAny,
		UpdateInterval:   30 * time.Second,
	}
}

// Validate reports every value that is out of its range.
func (c Config) Validate() error {
	var errs []error
	number := func(name string, v, low, high float64) {
		if !(v >= low && v <= high) { // so that NaN fails, too
			errs = append(errs, fmt.Errorf("%s is %v, want a number from %v to %v", name, v, low, high))
		}
	}
	span := func(name string, v, low, high time.Duration) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("%s is %v, want %v to %v", name, v, low, high))
		}
	}
	number("base rate", c.BaseRate, 0, 1)
	number("minimum rate", c.MinRate, 0, 1)
	number("maximum rate", c.MaxRate, 0, 1)
	if c.BaseRate > c.MaxRate {
		errs = append(errs, fmt.Errorf("base rate %v is above the maximum rate %v: lower the one or raise the other", c.BaseRate, c.MaxRate))
	}
	number("error boost", c.ErrorBoost, 1, maxBoost)
	number("error share", c.ErrorShare, 0, 1)
	span("latency threshold", c.LatencyThreshold, 0, maxDuration)
	number("latency boost", c.LatencyBoost, 1, maxBoost)
	if _, err := c.LatencyTrigger.quantile(); err != nil {
		errs = append(errs, err)
	}
	span("update interval", c.UpdateInterval, minInterval, maxDuration)
	if c.Budget.TracesPerSecond != 0 {
		number("budget's traces per second (0 for none)", c.Budget.TracesPerSecond, minPerSecond, maxPerSecond)
	}
	if c.Budget.CPUCores != 0 {
		number("budget's CPU cores (0 for none)", c.Budget.CPUCores, minCores, maxCores)
		if !cpuKnown {
			errs = append(errs, errors.New("the budget's CPU limit needs Linux, where getrusage(2) tells the process's time: leave it 0"))
		}
	}
	if c.Budget.P99 != 0 {
		span("budget's p99 (0 for none)", c.Budget.P99, minP99, maxDuration)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("adaptive: %w", err)
	}
	return nil
}

// quantile returns the trigger's percentile as 0 < q < 1, or 0 for the two
// triggers that are none.
func (t Trigger) quantile() (float64, error) {
	if t == TriggerAny || t == TriggerMean {
		return 0, nil
	}
	if len(t) > 1 && len(t) < 16 && t[0] == 'p' {
		if p, err := strconv.ParseFloat(string(t[1:]), 64); err == nil && p > 0 && p < 100 {
			return p / 100, nil
		}
	}
	return 0, fmt.Errorf("latency trigger is %q, want %q, %q or a percentile such as \"p95\"", string(t), TriggerAny, TriggerMean)
}

// A boost is a set of conditions that were met in an interval.
type boost uint8

const (
	failing boost = 1 << iota
	slow
	allBoosts = 4 // how many sets there are
)

// boostOf returns the multipliers that an interval's errors and durations switch on.
func (c *Config) boostOf(w *window) boost {
	var b boost
	if w.failed > 0 && float64(w.failed) > c.ErrorShare*float64(w.total) {
		b |= failing
	}
	if c.isSlow(w) {
		b |= slow
	}
	return b
}

func (c *Config) isSlow(w *window) bool {
	if w.total == 0 {
		return false
	}
	switch c.LatencyTrigger {
	case TriggerAny:
		return w.slow > 0
	case TriggerMean:
		return w.mean() > c.LatencyThreshold
	default:
		q, _ := c.LatencyTrigger.quantile() // validated
		return w.quantile(q) > c.LatencyThreshold
	}
}

// rate is the share to sample, before the budget. Each step takes precedence over
// the ones before it.
func (c *Config) rate(base float64, b boost, incident, pressure float64) float64 {
	r := base
	if b&failing != 0 {
		r *= c.ErrorBoost
	}
	if b&slow != 0 {
		r *= c.LatencyBoost
	}
	r = max(r, incident)
	r *= 1 - pressure
	return math.Min(math.Max(r, c.MinRate), c.MaxRate)
}
