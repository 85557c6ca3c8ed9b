package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A diagnosis is what `tare doctor --json` says of a kernel, without what differs
// from machine to machine.
type diagnosis struct {
	Verdict  string            `json:"verdict"`
	Tier     string            `json:"tier"`
	Tiers    map[string]string `json:"tiers"` // by name: state, and the program that is refused
	Lost     []string          `json:"lost"`  // capabilities that the tier does without
	Features map[string]string `json:"features"`
}

func (d *diagnosis) lacks(capability string) bool { return slices.Contains(d.Lost, capability) }

// diagnosed reads what doctor wrote.
func diagnosed(text []byte) (*diagnosis, error) {
	var said struct {
		Verdict, Tier string
		Tiers         []struct {
			Name, State, Program, Hook string
			Lost                       []struct{ Capability string }
		}
		Features []struct{ Name, State string }
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, fmt.Errorf("what doctor wrote: %w", err)
	}
	d := &diagnosis{said.Verdict, said.Tier, map[string]string{}, []string{}, map[string]string{}}
	for _, t := range said.Tiers {
		d.Tiers[t.Name] = t.State
		if t.Program != "" {
			d.Tiers[t.Name] += ": " + t.Program + " at " + t.Hook
		}
		for _, l := range t.Lost {
			if t.Name == said.Tier {
				d.Lost = append(d.Lost, l.Capability)
			}
		}
	}
	for _, f := range said.Features {
		d.Features[f.Name] = f.State
	}
	return d, nil
}

func expectedFile(k kernel) string {
	return filepath.Join("integration/kernels/doctor", k.String()+".json")
}

// expected is what doctor is known to say.
func expected(k kernel) (*diagnosis, error) {
	text, err := os.ReadFile(expectedFile(k))
	if err != nil {
		return nil, err
	}
	d := &diagnosis{}
	return d, json.Unmarshal(text, d)
}

func (d *diagnosis) text() string {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // strings only
	}
	return string(text) + "\n"
}

// differences are the lines that only one of two diagnoses has.
func differences(want, got *diagnosis) string {
	var b strings.Builder
	a, z := strings.Split(want.text(), "\n"), strings.Split(got.text(), "\n")
	for _, line := range a {
		if !slices.Contains(z, line) {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	for _, line := range z {
		if !slices.Contains(a, line) {
			fmt.Fprintf(&b, "+ %s\n", line)
		}
	}
	return b.String()
}
