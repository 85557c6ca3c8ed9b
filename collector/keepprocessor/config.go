package keepprocessor

import (
	"errors"
	"fmt"
	"time"
)

// Config of tare_keep. The default keeps everything.
type Config struct {
	// Errors says which failures keep a trace: ErrorsAny, ErrorsRoot,
	// ErrorsServer or ErrorsNone.
	Errors string `mapstructure:"errors"`
	Slow   Slow   `mapstructure:"slow"`
	Rare   Rare   `mapstructure:"rare"`
	// Rules, in order: the first rule that some span of the trace matches applies.
	Rules []Rule `mapstructure:"rules"`
	// Incomplete says what happens to traces that tare_tracer calls incomplete:
	// IncompleteKeep, IncompleteShare (as the others) or IncompleteDrop.
	Incomplete string `mapstructure:"incomplete"`
	Share      Share  `mapstructure:"share"`
	// Remember bounds the decisions that are remembered for late spans, 0 to
	// 10,000,000; with 0 none are.
	Remember int `mapstructure:"remember"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of Config.Errors.
const (
	ErrorsAny    = "any"
	ErrorsRoot   = "root"
	ErrorsServer = "server"
	ErrorsNone   = "none"
)

// Values of Config.Incomplete.
const (
	IncompleteKeep  = "keep"
	IncompleteShare = "share"
	IncompleteDrop  = "drop"
)

// Slow says which traces are slow, by the duration of their root.
type Slow struct {
	// SlowerThan keeps a trace whose root took longer; 0 means no limit.
	SlowerThan time.Duration `mapstructure:"slower_than"`
	// Operations override SlowerThan, the first that matches.
	Operations []Operation `mapstructure:"operations"`
	Learn      Learn       `mapstructure:"learn"`

	_ struct{}
}

// Operation sets another limit for some roots. Service and Name are patterns of
// package otel/rule; an empty one matches any.
type Operation struct {
	Service string `mapstructure:"service"`
	Name    string `mapstructure:"name"`
	// SlowerThan: 0 means no limit for these.
	SlowerThan time.Duration `mapstructure:"slower_than"`

	_ struct{}
}

// Learn configures the limits that are learned for each root operation.
type Learn struct {
	// Quantile of an operation's durations beyond which a root is slow, 0.5 to 0.9999;
	// 0 turns learning off.
	Quantile float64 `mapstructure:"quantile"`
	// Operations bounds the operations that are learned, 1 to 100,000; each
	// takes about 2.5 KB.
	Operations int `mapstructure:"operations"`
	// After is the number of observations after which a limit applies; 0 means
	// 20/(1-Quantile).
	After int `mapstructure:"after"`
	// AtLeast is the minimum duration of a root that a learned limit calls slow.
	AtLeast time.Duration `mapstructure:"at_least"`

	_ struct{}
}

// Rare keeps the first traces of each path in each interval.
type Rare struct {
	// First is how many traces of a path are kept in an interval, 0 to 255; 0 turns
	// this off.
	First int `mapstructure:"first"`
	// Interval after which the counts of all paths restart, at least 1s.
	Interval time.Duration `mapstructure:"interval"`
	// AtMost bounds the traces kept as rare in an interval, at least 1.
	AtMost int `mapstructure:"at_most"`

	_ struct{}
}

// Share configures the probability for traces that no other reason keeps.
type Share struct {
	// Probability is an upper bound, 0 to 1, of all requests.
	Probability float64 `mapstructure:"probability"`
	// TracesPerSecond lowers the probability so that on average no more traces are
	// kept; 0 means no limit.
	TracesPerSecond float64 `mapstructure:"traces_per_second"`
	// Adapt is the time constant with which the probability follows the
	// traffic, 1s to 1h.
	Adapt time.Duration `mapstructure:"adapt"`

	_ struct{}
}

func defaultConfig() *Config {
	return &Config{
		Errors:     ErrorsAny,
		Slow:       Slow{Learn: Learn{Quantile: 0.99, Operations: 1024}},
		Rare:       Rare{First: 3, Interval: 10 * time.Minute, AtMost: 1000},
		Incomplete: IncompleteShare,
		Share:      Share{Probability: 1, Adapt: 10 * time.Second},
		Remember:   1 << 16,
	}
}

// Bounds of configured values.
const (
	maxOperations = 100_000
	maxRemember   = 10_000_000
	maxFirst      = 255
	maxAfter      = 1 << 28 // newLearned multiplies it by four, in a uint32
)

// Validate implements the collector's check of configurations. It reports every
// value that is wrong.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch c.Errors {
	case ErrorsAny, ErrorsRoot, ErrorsServer, ErrorsNone:
	default:
		bad("errors is %q; use any, root, server or none", c.Errors)
	}
	switch c.Incomplete {
	case IncompleteKeep, IncompleteShare, IncompleteDrop:
	default:
		bad("incomplete is %q; use keep, share or drop", c.Incomplete)
	}
	errs = append(errs, c.Slow.validate(), c.Rare.validate(), c.Share.validate())
	if _, err := compileRules(c.Rules); err != nil {
		errs = append(errs, err)
	}
	if c.Remember < 0 || c.Remember > maxRemember {
		bad("remember is %d; use 0 to %d decisions", c.Remember, maxRemember)
	}
	return errors.Join(errs...)
}

func (s *Slow) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("slow: "+format, args...)) }
	if s.SlowerThan < 0 {
		bad("slower_than is %v; use a positive duration, or 0 for no limit", s.SlowerThan)
	}
	if _, err := compileOperations(s.Operations); err != nil {
		errs = append(errs, err)
	}
	l := &s.Learn
	if l.Quantile != 0 && !(l.Quantile >= 0.5 && l.Quantile <= 0.9999) { // NaN too
		bad("learn: quantile is %g; use 0.5 to 0.9999, or 0 to turn learning off", l.Quantile)
	}
	if l.Quantile != 0 && (l.Operations < 1 || l.Operations > maxOperations) {
		bad("learn: operations is %d; use 1 to %d", l.Operations, maxOperations)
	}
	if l.After < 0 || l.After > maxAfter {
		bad("learn: after is %d; use a number of observations up to %d, or 0 for 20/(1-quantile)", l.After, maxAfter)
	}
	if l.AtLeast < 0 {
		bad("learn: at_least is %v; use a positive duration, or 0 for no lower limit", l.AtLeast)
	}
	return errors.Join(errs...)
}

func (r *Rare) validate() error {
	var errs []error
	if r.First < 0 || r.First > maxFirst {
		errs = append(errs, fmt.Errorf("rare: first is %d; use 1 to %d traces of a path, or 0 to turn this off", r.First, maxFirst))
	}
	if r.First > 0 && r.Interval < time.Second {
		errs = append(errs, fmt.Errorf("rare: interval is %v; use 1s or more", r.Interval))
	}
	if r.First > 0 && r.AtMost < 1 {
		errs = append(errs, fmt.Errorf("rare: at_most is %d; use 1 or more traces per interval, or first: 0 to turn this off", r.AtMost))
	}
	return errors.Join(errs...)
}

func (s *Share) validate() error {
	var errs []error
	if !(s.Probability >= 0 && s.Probability <= 1) {
		errs = append(errs, fmt.Errorf("share: probability is %g; use 0 to 1", s.Probability))
	}
	if !(s.TracesPerSecond >= 0 && s.TracesPerSecond <= 1e9) {
		errs = append(errs, fmt.Errorf("share: traces_per_second is %g; use a number up to 1e9, or 0 for no limit", s.TracesPerSecond))
	}
	if s.TracesPerSecond > 0 && (s.Adapt < time.Second || s.Adapt > time.Hour) {
		errs = append(errs, fmt.Errorf("share: adapt is %v; use 1s to 1h", s.Adapt))
	}
	return errors.Join(errs...)
}

// keepsAll reports whether no trace can be dropped, so that traces need not be read.
func (c *Config) keepsAll() bool {
	if c.Share.Probability < 1 || c.Share.TracesPerSecond > 0 || c.Incomplete == IncompleteDrop {
		return false
	}
	for _, r := range c.Rules {
		if r.probability() < 1 {
			return false
		}
	}
	return true
}
