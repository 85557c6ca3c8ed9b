package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
)

const openCells = 4 // more are folded: a page of fifteen tables hides what it says

func (v *view) cells(m *record.Manifest, s *analysis.Summary) {
	for _, c := range s.Cells {
		t := cell{Name: c.Name, Anchor: anchor("cell-", c.Name), Open: len(s.Cells) <= openCells}
		t.About = fmt.Sprintf("closed loop, %d connections", c.Connections)
		if c.Offered > 0 {
			t.About = fmt.Sprintf("open loop, %s requests/s over %d connections", strconv.FormatFloat(c.Offered, 'f', -1, 64), c.Connections)
		}
		var keys []string
		for _, key := range m.Experiment.Metrics {
			metric, ok := record.MetricOf(key)
			if !ok || !slices.ContainsFunc(c.Variants, func(x analysis.Variant) bool { return x.Measure(key) != nil }) {
				continue
			}
			keys = append(keys, key)
			t.Head = append(t.Head, column{metric.Name, metric.Unit, metric.About})
		}
		for i := range c.Variants {
			x := &c.Variants[i]
			r := row{
				Name:    analysis.Label(x.Name),
				About:   fmt.Sprintf("n=%d", x.Kept),
				Control: x.Role == analysis.Again,
			}
			if x.Kept < x.Runs {
				r.About += fmt.Sprintf(" of %d", x.Runs)
			}
			for _, key := range keys {
				r.Values = append(r.Values, valueOf(x, key))
			}
			t.Rows = append(t.Rows, r)
		}
		v.Cells = append(v.Cells, t)
	}
}

func valueOf(x *analysis.Variant, key string) value {
	measure := x.Measure(key)
	if measure == nil {
		return value{Middle: "–"}
	}
	m, _ := record.MetricOf(key)
	var out value
	out.Middle, out.Interval = analysis.Number(measure.Value)
	if measure.From != record.Measured {
		out.N = fmt.Sprintf("n=%d, %s runs", measure.Value.N, measure.From)
	} else if measure.Value.N != x.Kept {
		out.N = fmt.Sprintf("n=%d", measure.Value.N)
	}
	e := measure.Effect
	if e == nil || m.Worse == 0 || e.Estimate.N == 0 {
		return out
	}
	change, interval := e.Change(m)
	if e.As == analysis.Difference {
		change = strings.TrimSuffix(change, " "+m.Unit) // the column has it
	}
	out.Range = interval
	if e.Estimate.N != x.Kept {
		out.Range += fmt.Sprintf(", n=%d", e.Estimate.N)
	}
	neutral := 0.0
	if e.As == analysis.Ratio {
		neutral = 1
	}
	switch {
	case e.Verdict.Distinguishable && (e.Estimate.Median > neutral) == (m.Worse > 0):
		out.Effect, out.Class = change, "worse"
	case e.Verdict.Distinguishable:
		out.Effect, out.Class = change, "better"
	case e.Estimate.Lo == neutral && e.Estimate.Hi == neutral:
		out.Effect, out.Range, out.Class = "the same", "", "same"
	default:
		out.Effect, out.Class = "not distinguishable", "same"
	}
	return out
}

func (v *view) controls(m *record.Manifest, s *analysis.Summary) {
	v.Controls.Head = []string{"cell", "metric", "control against baseline", "noise floor"}
	for _, c := range s.Cells {
		for _, k := range c.Control {
			metric, ok := record.MetricOf(k.Metric)
			if !ok || metric.Worse == 0 || !slices.Contains(m.Experiment.Metrics, k.Metric) {
				continue
			}
			e := analysis.Effect{As: k.As, Estimate: k.Estimate}
			change, interval := e.Change(metric)
			v.Controls.Rows = append(v.Controls.Rows, []string{c.Name, metric.WithUnit(),
				fmt.Sprintf("%s (%s, n=%d)", change, interval, k.Estimate.N),
				analysis.FloorText(k.Floor, k.As, metric)})
		}
	}
}

// costs are the CPU profiles, the kernel programs and the ground truth.
func (v *view) costs(s *analysis.Summary) {
	for _, p := range s.CPU {
		c := captioned{Caption: fmt.Sprintf("%s, %s (n=%d)", p.Cell, analysis.Label(p.Variant), p.N), Table: cpuTable("category", p.Categories)}
		if p.Added != nil {
			c.Table.Rows = append(c.Table.Rows, []string{"all together", "", estimate(*p.Added, ""), ""})
		}
		if len(p.Packages) > 0 {
			c.Folded = cpuTable("package, its own functions", p.Packages)
		}
		v.CPU = append(v.CPU, c)
	}
	v.Programs.Head = []string{"cell", "variant", "program", "ns per run", "runs per request"}
	for _, p := range s.Programs {
		v.Programs.Rows = append(v.Programs.Rows, []string{p.Cell, analysis.Label(p.Variant), p.Program,
			estimate(p.NsPerRun, ""), estimate(p.RunsPerRequest, "")})
	}
	v.Fidelity.Head = []string{"cell", "variant", "complete", "wrong", "calls linked, and wrongly, of all", "by class"}
	for _, f := range s.Fidelity {
		v.Fidelity.Rows = append(v.Fidelity.Rows, []string{f.Cell, analysis.Label(f.Variant), f.Complete.String(), f.Wrong.String(), links(f.Links), counts(f.Classes)})
	}
}

// planted is a table for each group of planted values and cell: what share of them was stored.
func (v *view) planted(s *analysis.Summary) {
	captions := map[string]string{"secrets": "Planted secrets that were stored, by kind", "places": "Planted secrets that were stored, by place", "decoys": "Decoys that were stored as they are"}
	at := ""
	for _, p := range s.Planted {
		if now := p.Cell + " " + p.Group; now != at {
			at = now
			head := []string{map[string]string{"places": "place"}[p.Group]}
			if head[0] == "" {
				head[0] = "kind"
			}
			for _, part := range p.Of {
				head = append(head, analysis.Label(part.Variant))
			}
			v.Planted = append(v.Planted, captioned{Caption: captions[p.Group] + ", " + p.Cell, Table: table{Head: head}})
		}
		row := []string{p.Name}
		for _, part := range p.Of {
			cell := "–"
			if part.Planted > 0 {
				cell = fmt.Sprintf("%.1f%%", 100*float64(part.Stored)/float64(part.Planted))
				switch part.Stored {
				case 0:
					cell = "none"
				case part.Planted:
					cell = "all"
				}
			}
			row = append(row, cell)
		}
		t := &v.Planted[len(v.Planted)-1].Table
		t.Rows = append(t.Rows, row)
	}
}

func cpuTable(what string, parts []analysis.CPUCategory) table {
	t := table{Head: []string{what, "µs/request", "added", "of all that was added"}}
	for _, k := range parts {
		if k.Value.Median == 0 && (k.Added == nil || k.Added.Median == 0) {
			continue // a category that concerns another service
		}
		added, share := "–", "–"
		if k.Added != nil {
			added = estimate(*k.Added, "")
		}
		if k.Share != nil {
			share = strings.Replace(fmt.Sprintf("%.0f%%", 100**k.Share), "-", "−", 1)
		}
		t.Rows = append(t.Rows, []string{k.Category, estimate(k.Value, ""), added, share})
	}
	return t
}

// links writes how many calls are linked; a dash where no call was expected.
func links(l record.Links) string {
	if l.Calls == 0 {
		return "–"
	}
	return fmt.Sprintf("%d, %d of %d", l.Linked, l.Wrong, l.Calls)
}

func counts[N int | uint64](m map[string]N) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
		}
	}
	return strings.Join(parts, ", ")
}

func (v *view) rules(s *analysis.Summary) {
	v.Rules.Head = []string{"rule", "looks at", "limit", "excluded"}
	v.Excluded.Head = []string{"run", "rule", "why"}
	for _, r := range s.Rules {
		limit := "off"
		switch {
		case r.Name == "failed":
			limit = "–"
		case r.Limit > 0 && r.Unit == "share":
			limit = strconv.FormatFloat(100*r.Limit, 'g', 4, 64) + "%"
		case r.Limit > 0:
			limit = strconv.FormatFloat(r.Limit, 'g', 4, 64) + " " + r.Unit
		}
		v.Rules.Rows = append(v.Rules.Rows, []string{r.Name, r.About, limit, strconv.Itoa(len(r.Excluded))})
		for _, e := range r.Excluded {
			v.Excluded.Rows = append(v.Excluded.Rows, []string{e.Run, r.Name, e.Reason})
		}
	}
	v.LeftOut = sortedPairs(s.LeftOut)
}

// lost adds up what the tracers themselves say they lost, and the generator's
// errors, over all runs.
func (v *view) lost(runs []record.Run) {
	v.Lost.Head = []string{"cell", "variant", "lost by the tracer", "requests that failed"}
	type key struct{ cell, variant string }
	lost, failed := map[key]map[string]uint64{}, map[key]map[string]uint64{}
	var order []key
	add := func(to map[key]map[string]uint64, k key, from map[string]uint64) {
		for reason, n := range from {
			if n == 0 {
				continue
			}
			if to[k] == nil {
				to[k] = map[string]uint64{}
			}
			to[k][reason] += n
			if !slices.Contains(order, k) {
				order = append(order, k)
			}
		}
	}
	for i := range runs {
		r := &runs[i]
		k := key{r.Cell, analysis.Label(r.Variant)}
		add(lost, k, r.Lost)
		add(failed, k, r.Errors)
	}
	slices.SortFunc(order, func(x, y key) int { return strings.Compare(x.cell+"\x00"+x.variant, y.cell+"\x00"+y.variant) })
	for _, k := range order {
		v.Lost.Rows = append(v.Lost.Rows, []string{k.cell, k.variant, orDash(counts(lost[k])), orDash(counts(failed[k]))})
	}
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// WhyElsewhere introduces the tracers that need another kernel.
func (v *view) WhyElsewhere() string {
	return "Linux " + v.Kernel + " does not offer what these tracers need, as tare doctor found by trying. On a kernel that does, this experiment measures them, too."
}

// method says how it was measured.
func (v *view) method(m *record.Manifest, s *analysis.Summary) {
	add := func(key, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.Trim(text, " ,") != "" {
			v.Method = append(v.Method, pair{key, text})
		}
	}
	p := m.Experiment.Profiles[m.Profile]
	add("experiment", "%s, profile %s", m.Experiment.Name, m.Profile)
	others := ""
	for _, t := range slices.Sorted(maps.Keys(p.RoundsOf)) {
		others += fmt.Sprintf(" (of %s %d)", t, p.RoundsOf[t])
	}
	add("rounds", "%d%s; in each, every variant once, the baseline twice, in an order drawn by the seed %d", p.Rounds, others, m.Seed)
	add("windows", "%s after a warm-up of at least %s", p.Window, p.Warmup)
	add("compared", "within rounds, with the mean of the baseline's two runs; medians with 95%% intervals; an effect counts only beyond what the baseline differs from itself by")
	add("runs", "%d of %d measured ones count, %d of %d profiled, %d of %d checked", s.Runs.MeasuredKept, s.Runs.Measured,
		s.Runs.ProfiledKept, s.Runs.Profiled, s.Runs.CheckedKept, s.Runs.Checked)
	if !m.Begin.IsZero() {
		add("when", "%s to %s", m.Begin.UTC().Format(time.RFC3339), m.End.UTC().Format(time.RFC3339))
	}
	add("machine", "%s", strings.Join(slices.DeleteFunc([]string{fmt.Sprintf("%d CPUs", m.Machine.CPUs), m.Machine.Model,
		fmt.Sprintf("%.1f GiB", m.Machine.MemGiB), m.Machine.Arch, m.Machine.Virtual}, func(s string) bool { return s == "" }), ", "))
	add("system", "%s, Linux %s", m.Machine.Distro, m.Machine.Kernel)
	commit := m.Commit
	if commit == "" {
		commit = "unknown"
	}
	add("tare", "%s, commit %s", m.Tare, commit)
	for _, cell := range slices.Sorted(maps.Keys(m.Calibrated)) {
		add("calibrated", "%s: %s requests/s, the most that every variant holds, or the share of it that the load asks for", cell, strconv.FormatFloat(m.Calibrated[cell], 'f', -1, 64))
	}
	v.Versions = sortedPairs(m.Versions)

	v.Kernel = m.Machine.Kernel
	v.Elsewhere.Head = []string{"tracer", "what it is", "rates", "why not here"}
	v.Tracers.Head = []string{"tracer", "what it is", "rates", "switched on by"}
	for _, t := range m.Experiment.Tracers {
		var rates []string
		for _, r := range t.Rates {
			rates = append(rates, analysis.RatePercent(r))
		}
		on := t.Flags
		for _, k := range slices.Sorted(maps.Keys(t.Env)) {
			on = append(slices.Clone(on), k+"="+t.Env[k])
		}
		if t.Collector {
			behind := "with a collector behind it"
			if t.Store {
				behind += ", which stores"
			}
			on = append(slices.Clone(on), behind)
		}
		v.Tracers.Rows = append(v.Tracers.Rows, []string{t.Name, orDash(t.Title), orDash(strings.Join(rates, ", ")), orDash(strings.Join(on, " "))})
		if reason, ok := s.NotOffered[t.Name]; ok {
			v.Elsewhere.Rows = append(v.Elsewhere.Rows, []string{t.Name, orDash(t.Title), orDash(strings.Join(rates, ", ")), reason})
		}
	}
	v.Workloads.Head = []string{"workload", "kind", "path", "environment"}
	for _, w := range m.Experiment.Workloads {
		var env []string
		for _, k := range slices.Sorted(maps.Keys(w.Env)) {
			env = append(env, k+"="+w.Env[k])
		}
		v.Workloads.Rows = append(v.Workloads.Rows, []string{w.Name, w.Kind, orDash(w.Path), orDash(strings.Join(env, " "))})
	}
	v.Metrics.Head = []string{"metric", "unit", "how it is measured"}
	for _, key := range m.Experiment.Metrics {
		if metric, ok := record.MetricOf(key); ok {
			v.Metrics.Rows = append(v.Metrics.Rows, []string{metric.Name, metric.Unit, metric.About})
		}
	}
	if e := s.Overheads.MeterCores; e != nil {
		v.Own = append(v.Own, pair{"CPU of the meter", estimate(*e, " cores")})
	}
	if e := s.Overheads.GeneratorLagP99; e != nil {
		v.Own = append(v.Own, pair{"lag of the load generator, p99", estimate(*e, " ms")})
	}
	if s.Overheads.Limited > 0 {
		v.Own = append(v.Own, pair{"runs at the generator's own limit", strconv.Itoa(s.Overheads.Limited)})
	}
}
