package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
)

// goTarget is a target of linking Go: a claim of an experiment, and the findings of it
// that are of one variant, at one load if there is one.
type goTarget struct {
	what, target, experiment, variant, load string
	claim                                   claim
}

var goTargets = []goTarget{
	{"hotel mesh, complete traces at 5,000 requests at once, 100% sampled, between nodes", "≥ 99.9%", "chainscope-hotel", "tare-joined@1", "", claim{"Q3", 0}},
	{"the same, wrong traces", "0", "chainscope-hotel", "tare-joined@1", "closed-5000", claim{"Q3", 3}},
	{"hotel mesh, requests/s at 1%, inside one node", "≥ −2%", "chainscope-hotel", "tare@0.01", "", claim{"Q1", 0}},
	{"the same between nodes", "≥ −2%", "chainscope-hotel", "tare-nodes@0.01", "", claim{"Q1", 0}},
	{"CPU that is added to a Go service at 1%, by what the official SDK adds: `coroot`", "≤ 1/10", "coroot", "tare@0.01", "", claim{"C1", 6}},
	{"the same at 100%", "≤ 1/4", "coroot", "tare@1", "", claim{"C1", 7}},
	{"CPU that is added to all services of the hotel mesh at 1%, by what the official SDK adds", "≤ 1/10", "chainscope-hotel", "tare@0.01", "", claim{"Q1", 2}},
	{"the same at 100%", "≤ 1/4", "chainscope-hotel", "tare@1", "", claim{"Q1", 3}},
	{"root cause: the right service first, over 50 placements, 10% sampled", "≥ 95%", "chainscope-rootcause", "tare@0.1", "", claim{"Q5", 2}},
	{"CPU of a Go service with nothing sampled", "neither more nor less", "coroot", "tare@0", "", claim{"C1", 5}},
}

// goLinking writes into cost the targets of linking Go, with what was measured, and into doc the calls of each way.
func goLinking(calls, results, doc, cost string) error {
	var b strings.Builder
	b.WriteString("| | target | measured | measured by |\n|---|---|---|---|\n")
	each, err := goCalls(&b, calls)
	if err != nil {
		return err
	}
	summaries := map[string]*analysis.Summary{}
	for _, t := range goTargets {
		s := summaries[t.experiment]
		if s == nil {
			if s, err = summary(filepath.Join(results, t.experiment)); err != nil {
				return err
			}
			summaries[t.experiment] = s
		}
		c, err := claimOf(s, t.experiment, t.claim)
		if err != nil {
			return err
		}
		var texts []string
		rows := c.Rows()
		for i, f := range c.Findings {
			if f.Variant != t.variant || t.load != "" && f.Load != t.load {
				continue
			}
			texts = append(texts, rows[i].String())
			if at, closed := strings.CutPrefix(f.Load, "closed-"); closed && t.load == "" {
				texts[len(texts)-1] = at + " at once: " + rows[i].String()
			}
		}
		if len(texts) == 0 {
			return fmt.Errorf("%s has no finding of %s for %s", t.experiment, t.variant, t.what)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | [%s](%s) |\n", t.what, t.target, strings.Join(texts, "<br>"), t.experiment, "results/"+t.experiment+"/report.md")
	}
	return errors.Join(replace(doc, "go-report", each), replace(cost, "go-report", b.String()))
}

// goCalls writes the row of the calls, and returns the table of each way.
func goCalls(b *strings.Builder, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: run make go-calls", err)
	}
	var r struct {
		Commit, Date, Go string
		CPUs             int
		Ways             []struct {
			Way                                  string
			Connections, Requests, Calls, Linked int
			Wrong                                int `json:"wrong_traces"`
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	calls, linked, wrong := 0, 0, 0
	var ways []string
	cells := map[string]string{}
	for _, w := range r.Ways {
		calls, linked, wrong = calls+w.Calls, linked+w.Linked, wrong+w.Wrong
		if !slices.Contains(ways, w.Way) {
			ways = append(ways, w.Way)
		}
		cells[w.Way] += fmt.Sprintf(" | %d of %d, %d wrong", w.Linked, w.Calls, w.Wrong)
	}
	fmt.Fprintf(b, "| calls of Go services that are linked, %d ways, over 1, 64 and 1,000 connections, 100%% sampled | ≥ 99.9%% of 1,000,000, 0 wrong | %d of %d (%.4f%%), %d wrong | `make go-calls` |\n",
		len(ways), linked, calls, 100*float64(linked)/float64(calls), wrong)
	var each strings.Builder
	fmt.Fprintf(&each, "Calls that are linked, of those that were made, and traces that hold calls of two requests, by connections:\n\n| | 1 | 64 | 1,000 |\n|---|---|---|---|\n")
	for _, w := range ways {
		fmt.Fprintf(&each, "| %s%s |\n", w, cells[w])
	}
	fmt.Fprintf(&each, "\n%s, %d CPUs, measured at commit %s.\n", r.Go, r.CPUs, r.Commit)
	return each.String(), nil
}
