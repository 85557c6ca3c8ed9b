package main

import (
	"errors"
	"fmt"
	"io/fs"
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

// links are the calls that an experiment counted, and what the kernel programs took meanwhile, in µs per request.
type links struct {
	manifest *record.Manifest
	counted  map[linksAt]record.Links
	cost     map[linksAt]float64
}

func readLinks(results string) (links, error) {
	m, runs, err := bench.Read(results)
	if err != nil {
		return links{}, fmt.Errorf("%w: run make runtimes", err)
	}
	l := links{m, map[linksAt]record.Links{}, map[linksAt]float64{}}
	for i := range runs {
		if r := &runs[i]; r.Links != nil && r.Kind == record.Checked {
			at := linksAt{r.Workload, r.Load, r.Rate}
			l.counted[at] = addLinks(l.counted[at], *r.Links)
			l.cost[at] = r.Values[record.KernelPrograms]
		}
	}
	return l, nil
}

// has reports whether a service's calls were counted.
func (l links) has(service string) bool {
	for at, n := range l.counted {
		if at.workload == service && n.Calls > 0 {
			return true
		}
	}
	return false
}

// measured says what a table is of.
func (l links) measured(n record.Links) string {
	return fmt.Sprintf("\n%d calls, %d of them linked wrongly; measured by `make runtimes` on %d CPUs, Linux %s, at commit %s.\n", n.Calls, n.Wrong, l.manifest.Machine.CPUs, l.manifest.Machine.Kernel, l.manifest.Commit)
}

// runtimes writes which calls of each runtime and framework are linked, as the experiment runtimes counted them: linking gets
// a line for each language; doc each service, and those of each way of linking that many requests were sent to.
func runtimes(results, ways, linking, doc string) error {
	l, err := readLinks(results)
	if err != nil {
		return err
	}
	many, err := readLinks(ways) // measured apart, as it takes long
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	services, languages, foot := l.services(many)
	if err == nil {
		services += many.ways()
	}
	return errors.Join(
		replace(doc, "runtimes-report", services),
		replace(linking, "runtimes-report", byLanguage(languages)+foot))
}

// ways is the table of many requests to some services.
func (l links) ways() string {
	var b strings.Builder
	var total record.Links
	fmt.Fprintf(&b, "\nOf each way of linking a service, with %d requests all sampled and as many of which a tenth is, 64 in flight:\n\n| service | linked, all sampled | linked, a tenth sampled | linked wrongly |\n|---|---|---|---|\n",
		l.manifest.Experiment.Profiles[l.manifest.Profile].Check)
	for _, s := range polyglot.All() {
		load := l.manifest.Experiment.Profiles[l.manifest.Profile].Cells[0].Loads[0]
		all, tenth := l.counted[linksAt{s.Name, load, 1}], l.counted[linksAt{s.Name, load, 0.1}]
		n := addLinks(all, tenth)
		if n.Calls == 0 {
			continue
		}
		total = addLinks(total, n)
		fmt.Fprintf(&b, "| %s | %d of %d | %d of %d | %d |\n", s.Name, all.Linked, all.Calls, tenth.Linked, tenth.Calls, n.Wrong)
	}
	return b.String() + l.measured(total)
}

// services is the table of all services, with the lines of languages, and what was measured
// when. Those that are not measured here are as they are in the results of many requests.
func (l links) services(many links) (table string, languages []*language, foot string) {
	m := l.manifest
	loads := m.Experiment.Loads
	var b strings.Builder
	b.WriteString("Of the calls that sampled requests make, those that are linked, by requests in flight. All requests are sampled, but in the last column of them.\n\n| service | who works for a request |")
	rule := "|---|---|"
	for _, load := range loads {
		fmt.Fprintf(&b, " %d |", load.Connections)
		rule += "---|"
	}
	busy := loads[0]
	for _, load := range loads {
		if load.Connections == 64 {
			busy = load
		}
	}
	fmt.Fprintf(&b, " 10%% sampled | linked wrongly | kernel programs, µs per request (%d) | what could tell whose a call is |\n%s---|---|---|---|\n", busy.Connections, rule)
	var total record.Links
	var apart []string
	for _, s := range polyglot.All() {
		var all, tenth record.Links
		var cells strings.Builder
		of, later := l, !l.has(s.Name) && many.has(s.Name)
		if later {
			of = many
			apart = append(apart, s.Name)
		}
		for _, load := range loads {
			n := of.counted[linksAt{s.Name, load.Name, 1}]
			fmt.Fprintf(&cells, " %s |", linkedText(n))
			all, tenth = addLinks(all, n), addLinks(tenth, of.counted[linksAt{s.Name, load.Name, 0.1}])
		}
		if all = addLinks(all, tenth); all.Calls == 0 {
			continue // not in the experiment, or left out
		}
		if !later {
			total = addLinks(total, all)
		}
		fmt.Fprintf(&b, "| %s | %s |%s %s | %d of %d | %.1f | %s |\n", s.Name, s.Worker, cells.String(), linkedText(tenth), all.Wrong, all.Calls,
			of.cost[linksAt{s.Name, busy.Name, 1}], s.By)
		languages = addTo(languages, s, all)
	}
	foot = l.measured(total)
	if len(apart) > 0 {
		foot += fmt.Sprintf("Not among these calls, measured at commit %s: %s.\n", many.manifest.Commit, strings.Join(apart, ", "))
	}
	b.WriteString(foot)
	for _, name := range slices.Sorted(maps.Keys(m.LeftOut)) {
		fmt.Fprintf(&b, "Left out: %s (%s).\n", name, m.LeftOut[name])
	}
	return b.String(), languages, foot
}

// language is a line of the short table: services by the share of their calls that are linked.
type language struct {
	name                        string
	linked, shim, partly, never []framework
	calls                       record.Links
}

// addTo puts a service, of whose calls so many are linked, into the line of its language.
func addTo(all []*language, s polyglot.Service, n record.Links) []*language {
	name, _, _ := strings.Cut(s.Runtime, " ")
	if s.Proxy {
		name = "Proxies"
	}
	i := slices.IndexFunc(all, func(l *language) bool { return l.name == name })
	if i < 0 {
		i = len(all)
		all = append(all, &language{name: name})
	}
	l := all[i]
	l.calls = addLinks(l.calls, n)
	what, withShim := strings.CutSuffix(s.Name, "-shim")
	versioned, what, _ := strings.Cut(what, "-")
	if s.Proxy {
		what = s.Name
	}
	list := &l.partly
	switch linked := float64(n.Linked) / float64(n.Calls); {
	case linked >= 0.99 && withShim:
		list = &l.shim
	case linked >= 0.99:
		list = &l.linked
	case linked <= 0.05:
		list = &l.never
	}
	if withShim && list != &l.shim {
		what += " with a shim"
	}
	at := slices.IndexFunc(*list, func(f framework) bool { return f.name == what })
	if at < 0 {
		at = len(*list)
		*list = append(*list, framework{name: what})
	}
	f := &(*list)[at]
	f.versions = append(f.versions, strings.TrimLeft(versioned, "abcdefghijklmnopqrstuvwxyz"))
	return all
}

// framework is one of a language's, with the versions of the runtime that behave alike.
type framework struct {
	name     string
	versions []string
}

// text has the versions if others of them are elsewhere in the line.
func (f framework) text(l *language) string {
	for _, list := range [][]framework{l.linked, l.partly, l.never} {
		if slices.ContainsFunc(list, func(o framework) bool { return o.name == f.name && !slices.Equal(o.versions, f.versions) }) {
			return f.name + " (" + strings.Join(f.versions, ", ") + ")"
		}
	}
	return f.name
}

// byLanguage is the table of docs/linking.md.
func byLanguage(languages []*language) string {
	var b strings.Builder
	b.WriteString("| | linked without setup (at least 99% of the calls) | linked with a shim | partly linked | not linked (reported) | linked wrongly |\n|---|---|---|---|---|---|\n")
	for _, l := range languages {
		fmt.Fprintf(&b, "| %s |", l.name)
		for i, list := range [][]framework{l.linked, l.shim, l.partly, l.never} {
			var texts []string
			for _, f := range list {
				if i == 1 { // a version or two of each were tried
					texts = append(texts, f.name)
				} else {
					texts = append(texts, f.text(l))
				}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(texts, ", "))
		}
		fmt.Fprintf(&b, " %d of %d |\n", l.calls.Wrong, l.calls.Calls)
	}
	return b.String()
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
