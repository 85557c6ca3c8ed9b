package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/workloads/polyglot"
)

// linksAt are the calls of a workload under a load at a sampling rate.
type linksAt struct {
	workload, load string
	rate           float64
}

// runtimes writes which calls of each runtime and framework are linked, as the experiment runtimes counted them.
func runtimes(results, doc string) error {
	m, runs, err := bench.Read(results)
	if err != nil {
		return fmt.Errorf("%w: run make runtimes", err)
	}
	counted := map[linksAt]record.Links{}
	for i := range runs {
		if r := &runs[i]; r.Links != nil && r.Kind == record.Checked {
			at := linksAt{r.Workload, r.Load, r.Rate}
			counted[at] = addLinks(counted[at], *r.Links)
		}
	}
	loads := m.Experiment.Loads
	var b strings.Builder
	b.WriteString("Of the calls that sampled requests make, those that are linked, by requests in flight. All requests are sampled, but in the last column of them.\n\n| service | who works for a request |")
	rule := "|---|---|"
	for _, l := range loads {
		fmt.Fprintf(&b, " %d |", l.Connections)
		rule += "---|"
	}
	b.WriteString(" 10% sampled | linked wrongly | what could tell whose a call is |\n" + rule + "---|---|---|\n")
	var total record.Links
	for _, s := range polyglot.All() {
		var all, tenth record.Links
		var cells strings.Builder
		for _, l := range loads {
			n := counted[linksAt{s.Name, l.Name, 1}]
			fmt.Fprintf(&cells, " %s |", linkedText(n))
			all, tenth = addLinks(all, n), addLinks(tenth, counted[linksAt{s.Name, l.Name, 0.1}])
		}
		if all = addLinks(all, tenth); all.Calls == 0 {
			continue // not in the experiment, or left out
		}
		total = addLinks(total, all)
		fmt.Fprintf(&b, "| %s | %s |%s %s | %d | %s |\n", s.Name, s.Worker, cells.String(), linkedText(tenth), all.Wrong, s.By)
	}
	fmt.Fprintf(&b, "\n%d calls, %d of them linked wrongly; %d CPUs, Linux %s, at commit %s.\n", total.Calls, total.Wrong, m.Machine.CPUs, m.Machine.Kernel, m.Commit)
	for _, name := range slices.Sorted(maps.Keys(m.LeftOut)) {
		fmt.Fprintf(&b, "Left out: %s (%s).\n", name, m.LeftOut[name])
	}
	return replace(doc, "runtimes-report", b.String())
}

func addLinks(a, b record.Links) record.Links {
	return record.Links{Calls: a.Calls + b.Calls, Linked: a.Linked + b.Linked, Wrong: a.Wrong + b.Wrong}
}

// linkedText rounds to neither all nor none.
func linkedText(l record.Links) string {
	switch {
	case l.Calls == 0:
		return "–"
	case l.Linked == l.Calls:
		return "all"
	case l.Linked == 0:
		return "none"
	}
	return fmt.Sprintf("%.1f%%", min(99.9, max(0.1, 100*float64(l.Linked)/float64(l.Calls))))
}
