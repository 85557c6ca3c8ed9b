package adaptive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// wire is Config's JSON: units are in the names.
type wire struct {
	BaseRate           float64    `json:"base_rate"`
	MinRate            float64    `json:"min_rate"`
	MaxRate            float64    `json:"max_rate"`
	ErrorBoost         float64    `json:"error_boost"`
	ErrorShare         float64    `json:"error_share"`
	LatencyThresholdMS float64    `json:"latency_threshold_ms"`
	LatencyBoost       float64    `json:"latency_boost"`
	LatencyTrigger     Trigger    `json:"latency_trigger"`
	UpdateIntervalS    float64    `json:"update_interval_s"`
	Budget             wireBudget `json:"budget"`
}

type wireBudget struct {
	TracesPerSecond float64 `json:"traces_per_second"`
	CPUCores        float64 `json:"cpu_cores"`
	P99MS           float64 `json:"p99_ms"`
}

func (c Config) wire() wire {
	return wire{
		BaseRate: c.BaseRate, MinRate: c.MinRate, MaxRate: c.MaxRate,
		ErrorBoost: c.ErrorBoost, ErrorShare: c.ErrorShare,
		LatencyThresholdMS: ms(c.LatencyThreshold), LatencyBoost: c.LatencyBoost, LatencyTrigger: c.LatencyTrigger,
		UpdateIntervalS: c.UpdateInterval.Seconds(),
		Budget: wireBudget{
			TracesPerSecond: c.Budget.TracesPerSecond, CPUCores: c.Budget.CPUCores, P99MS: ms(c.Budget.P99),
		},
	}
}

func (w wire) config() (Config, error) {
	var errs []error
	span := func(name string, v float64, unit time.Duration) time.Duration {
		d, err := duration(v, unit)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return d
	}
	c := Config{
		BaseRate: w.BaseRate, MinRate: w.MinRate, MaxRate: w.MaxRate,
		ErrorBoost: w.ErrorBoost, ErrorShare: w.ErrorShare,
		LatencyThreshold: span("latency_threshold_ms", w.LatencyThresholdMS, time.Millisecond),
		LatencyBoost:     w.LatencyBoost, LatencyTrigger: w.LatencyTrigger,
		UpdateInterval: span("update_interval_s", w.UpdateIntervalS, time.Second),
		Budget: Budget{
			TracesPerSecond: w.Budget.TracesPerSecond, CPUCores: w.Budget.CPUCores,
			P99: span("budget.p99_ms", w.Budget.P99MS, time.Millisecond),
		},
	}
	return c, errors.Join(errs...)
}

// MarshalJSON writes the fields in snake case, durations as numbers with their
// unit in the name: latency_threshold_ms, update_interval_s, budget.p99_ms.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.wire()) }

// UnmarshalJSON reads what MarshalJSON writes. Fields that are not there keep
// the value that c has; fields with another name are an error. It checks that
// values can be represented; Validate checks their ranges.
func (c *Config) UnmarshalJSON(data []byte) error {
	if t := bytes.TrimSpace(data); len(t) == 0 || t[0] != '{' {
		return errors.New(`adaptive: a configuration is a JSON object such as {"base_rate":0.05}`)
	}
	w := c.wire()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return fmt.Errorf("adaptive: configuration: %w", err)
	}
	n, err := w.config()
	if err != nil {
		return fmt.Errorf("adaptive: configuration: %w", err)
	}
	*c = n
	return nil
}

// duration converts v units; Validate's ranges are narrower than its.
func duration(v float64, unit time.Duration) (time.Duration, error) {
	ns := v * float64(unit)
	if !(math.Abs(ns) <= float64(maxDuration)*365) {
		return 0, fmt.Errorf("%v is out of range", v)
	}
	return time.Duration(math.Round(ns)), nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
