package adaptive

import (
	"fmt"

	"github.com/tare-trace/tare/otel/rule"
)

// A Rule says what happens to the traces whose root span it matches. Make one
// with [Never], [Always] or [Base].
type Rule struct {
	match *rule.Rule
	kind  verdict
	base  float64
}

type verdict uint8

const (
	verdictBase verdict = iota
	verdictNever
	verdictAlways
)

func (v verdict) String() string { return [...]string{"base", "never", "always"}[v] }

// Never keeps what matches out of sampling, whatever the rates are: health
// checks, or authentication, whose traces may hold what nobody should store
// (Hoikka 2026, 5.4.2).
func Never(m *rule.Rule) Rule { return Rule{match: m, kind: verdictNever} }

// Always samples what matches, whatever the rates are. It takes from the
// budget of traces per second, and only that budget's cap can stop it.
func Always(m *rule.Rule) Rule { return Rule{match: m, kind: verdictAlways, base: 1} }

// Base gives what matches a base rate of its own, 0 to 1, to which boosts,
// limits and budget apply as to the configured one.
func Base(m *rule.Rule, rate float64) Rule { return Rule{match: m, kind: verdictBase, base: rate} }

func (r Rule) validate() error {
	if r.match == nil {
		return fmt.Errorf("a rule has nothing to match: make it with Never, Always or Base and a compiled rule")
	}
	if !(r.base >= 0 && r.base <= 1) {
		return fmt.Errorf("rule %s: base rate is %v, want a number from 0 to 1", r.match, r.base)
	}
	return nil
}

// A class is what decides about the base rate: 0 is the configuration, i+1 is
// rule i.
func (s *Sampler) classes() int { return len(s.verdicts) }

// baseOf returns the base rate of a class. The caller holds mu.
func (s *Sampler) baseOf(class int) float64 {
	if class == 0 {
		return s.config.BaseRate
	}
	return s.rules.At(class - 1).Value.base
}
