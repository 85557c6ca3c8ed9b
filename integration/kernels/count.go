package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// untraced is the way of tracing that runs no agent.
const untraced = "untraced"

// A tracing is a way of tracing, with the agent's flags.
type tracing struct{ name, flags string }

// tracings are those that are counted.
var tracings = []tracing{
	{untraced, ""},
	{"programs that do nothing", "--sampler-arg 0 --stop-at programs"},
	{"0%", "--sampler-arg 0"},
	{"1%", "--sampler-arg 0.01"},
	{"1%, and retro", "--sampler-arg 0.01 --retro 64MiB"},
	{"10%", "--sampler-arg 0.1"},
	{"100%", "--sampler-arg 1"},
}

// A counted is what one run counted, per request.
type counted struct {
	Commit       string             `json:"commit"`
	Kernel       string             `json:"kernel"`  // 6.12-amd64
	Release      string             `json:"release"` // as it names itself
	Connections  int                `json:"connections"`
	Tracing      string             `json:"tracing"` // of tracings
	Requests     int                `json:"requests"`
	Instructions float64            `json:"instructions"` // of the whole machine
	Parts        map[string]float64 `json:"parts"`        // of the same
	Tasks        map[string]float64 `json:"tasks"`        // in whose context, with interrupts

	names map[string]float64 // by symbol of the kernel
	agent map[string]float64 // by function of the agent
}

// counts is a file of results.
type counts struct {
	QEMU  string    `json:"qemu"`
	Nginx string    `json:"nginx"`
	Runs  []counted `json:"runs"`
}

// is tells whether two runs are of the same kernel, load and way of tracing.
func (r *counted) is(x *counted) bool {
	return r.Kernel == x.Kernel && r.Connections == x.Connections && r.Tracing == x.Tracing
}

// Requests of a run: before the window, and in it.
const (
	warmRequests    = 1500
	countedRequests = 4000
)

// count counts instructions per request of nginx before nginx. It prints a table, and records or checks it.
func count(ctx context.Context, cache string, kernels []kernel, o options) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("instructions are counted on amd64 alone")
	}
	var connections []int
	for field := range strings.SplitSeq(o.connections, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return fmt.Errorf("-connections %q: numbers, separated by commas", o.connections)
		}
		connections = append(connections, n)
	}
	var committed counts
	wanted := tracings
	if o.check != "" {
		text, err := os.ReadFile(o.check)
		if err == nil {
			err = json.Unmarshal(text, &committed)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.check, err)
		}
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(t tracing) bool { return t.name != untraced && t.name != "1%" })
	}
	runs, err := countAll(ctx, cache, "bin/tare-agent", kernels, connections, wanted, o)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	table(&out, runs)
	if o.top > 0 {
		topOf(&out, runs, o.top)
	}
	if o.against != "" {
		before, err := countAll(ctx, cache, o.against, kernels, connections, wanted[1:], o)
		if err != nil {
			return err
		}
		difference(&out, before, runs, o.top)
	}
	if o.check != "" {
		err = compare(&out, committed.Runs, runs)
	}
	if _, failed := out.WriteTo(os.Stdout); failed != nil || err != nil || o.record == "" {
		return errors.Join(err, failed)
	}
	return recordCounts(ctx, o.record, runs)
}

// recordCounts replaces these runs in a file of results, which may not be there yet.
func recordCounts(ctx context.Context, path string, runs []counted) error {
	var all counts
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var commit string
	for to, argv := range map[*string][]string{
		&commit: {"git", "rev-parse", "--short=12", "HEAD"}, &all.QEMU: {"qemu-system-x86_64", "--version"}, &all.Nginx: {"nginx", "-v"},
	} {
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
		*to, _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	}
	for i := range runs {
		runs[i].Commit = commit
		if k := slices.IndexFunc(all.Runs, func(r counted) bool { return r.is(&runs[i]) }); k >= 0 {
			all.Runs[k] = runs[i]
		} else {
			all.Runs = append(all.Runs, runs[i])
		}
	}
	if text, err = json.MarshalIndent(all, "", " "); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// countAll counts every way of tracing by an agent, in every kernel, at every number of connections.
func countAll(ctx context.Context, cache, agent string, kernels []kernel, connections []int, wanted []tracing, o options) ([]counted, error) {
	work, err := os.MkdirTemp("", "tare-count-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	c := &counter{dir: work, agent: agent}
	if err := c.compile(ctx); err != nil {
		return nil, err
	}
	if c.functions, err = goSymbols(agent); err != nil {
		return nil, err
	}
	type run struct {
		guest *countGuest
		flags string
	}
	var how []run
	var runs []counted
	for _, k := range kernels {
		g, err := c.prepare(ctx, cache, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		for _, n := range connections {
			for _, t := range wanted {
				how = append(how, run{g, t.flags})
				runs = append(runs, counted{Kernel: k.String(), Release: g.release, Connections: n, Tracing: t.name, Requests: countedRequests})
			}
		}
	}
	errs := make([]error, len(runs))
	free := make(chan struct{}, o.parallel)
	var wait sync.WaitGroup
	for i := range runs {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			r, began := &runs[i], time.Now()
			if errs[i] = c.run(ctx, how[i].guest, r, how[i].flags, o.timeout); errs[i] != nil {
				errs[i] = fmt.Errorf("%s, %d connections, %s: %w", r.Kernel, r.Connections, r.Tracing, errs[i])
				return
			}
			fmt.Fprintf(os.Stderr, "%s, %d connections, %s: %.0f instructions per request (%v)\n",
				r.Kernel, r.Connections, r.Tracing, r.Instructions, time.Since(began).Round(time.Second))
		})
	}
	wait.Wait()
	return runs, errors.Join(errs...)
}

// base is the run without tracing that a run is compared with.
func base(runs []counted, of *counted) *counted {
	i := slices.IndexFunc(runs, func(r counted) bool {
		return r.Kernel == of.Kernel && r.Connections == of.Connections && r.Tracing == untraced
	})
	if i < 0 {
		return nil
	}
	return &runs[i]
}

// table prints instructions per request, and what tracing adds, by part.
func table(to *bytes.Buffer, runs []counted) {
	var w bytes.Buffer
	fmt.Fprint(&w, "kernel\tconnections\ttracing\tinstructions\tratio\t")
	for _, p := range parts {
		fmt.Fprintf(&w, "%s\t", p)
	}
	fmt.Fprintln(&w)
	for i := range runs {
		r := &runs[i]
		b := base(runs, r)
		if b == nil {
			continue
		}
		fmt.Fprintf(&w, "%s\t%d\t%s\t%.0f\t%.4f\t", r.Release, r.Connections, r.Tracing, r.Instructions, r.Instructions/b.Instructions)
		for _, p := range parts {
			if r == b {
				fmt.Fprintf(&w, "%.0f\t", r.Parts[p])
			} else {
				fmt.Fprintf(&w, "%+.0f\t", r.Parts[p]-b.Parts[p])
			}
		}
		fmt.Fprintln(&w)
	}
	columns := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = columns.Write(w.Bytes()) // a buffer refuses nothing
	_ = columns.Flush()
}

// topOf prints what tracing adds by symbol, and the agent's functions, the largest first.
func topOf(to *bytes.Buffer, runs []counted, n int) {
	for i := range runs {
		r := &runs[i]
		b := base(runs, r)
		if b == nil || b == r {
			continue
		}
		fmt.Fprintf(to, "\n%s, %d connections, %s: instructions per request more than untraced, by symbol of the kernel\n", r.Release, r.Connections, r.Tracing)
		largest(to, less(r.names, b.names), n)
		fmt.Fprintln(to, "instructions per request of the agent, by function")
		largest(to, r.agent, n)
	}
}

// difference prints what has changed between two agents, by part and by symbol.
func difference(to *bytes.Buffer, before, after []counted, n int) {
	for i := range before {
		b := &before[i]
		k := slices.IndexFunc(after, func(r counted) bool { return r.is(b) })
		a := &after[k]
		fmt.Fprintf(to, "\n%s, %d connections, %s: %.0f instructions per request, before %.0f (%+.2f%%)\n",
			a.Release, a.Connections, a.Tracing, a.Instructions, b.Instructions, 100*(a.Instructions/b.Instructions-1))
		largest(to, less(a.Parts, b.Parts), len(parts))
		if n > 0 {
			fmt.Fprintln(to, "by symbol of the kernel, and by function of the agent")
			largest(to, less(a.names, b.names), n)
			largest(to, less(a.agent, b.agent), n)
		}
	}
}

// less is by how much the values of one exceed those of another.
func less(a, b map[string]float64) map[string]float64 {
	d := maps.Clone(a)
	for name, v := range b {
		d[name] -= v
	}
	return d
}

// largest prints the n values that are farthest from 0, a line each.
func largest(to *bytes.Buffer, of map[string]float64, n int) {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(math.Abs(of[b]), math.Abs(of[a])), cmp.Compare(a, b))
	})
	for _, name := range names[:min(n, len(names))] {
		fmt.Fprintf(to, "%9.1f  %s\n", of[name], name)
	}
}

// By how much what tracing adds may exceed what is committed, as a share of an untraced request: what Tare itself executes, and
// all that the machine does. The second moves by up to 0.8% with every change of code, since interrupts come between other
// instructions then, and tasks are woken in another order.
const (
	toleratedOwn = 0.003
	toleratedAll = 0.01
)

// own is what Tare executes of a run: its programs with what calls them and what they call, and the agent.
func (r *counted) own() (sum float64) {
	for _, p := range []string{programs, calling, helpers, agentCode} {
		sum += r.Parts[p]
	}
	return sum
}

// compare fails if tracing adds more instructions to a request than what is committed of the same kernel: of another one,
// numbers are others, and nothing can be told. What a request takes untraced changes with nginx and the C library.
func compare(to *bytes.Buffer, committed, runs []counted) error {
	var grown []string
	for i := range runs {
		r := &runs[i]
		k := slices.IndexFunc(committed, func(c counted) bool {
			return c.Release == r.Release && c.Connections == r.Connections && c.Tracing == r.Tracing
		})
		b := base(runs, r)
		if r == b {
			continue
		}
		if k < 0 || b == nil || base(committed, &committed[k]) == nil {
			fmt.Fprintf(to, "%s, %d connections, %s: not compared, since nothing is committed of this kernel (make weight-exact)\n", r.Release, r.Connections, r.Tracing)
			continue
		}
		before := base(committed, &committed[k])
		all, allWas := r.Instructions-b.Instructions, committed[k].Instructions-before.Instructions
		own, ownWas := r.own()-b.own(), committed[k].own()-before.own()
		line := fmt.Sprintf("%s, %d connections, %s: tracing adds %.0f instructions to a request of %.0f, %.0f of them Tare's own; committed are %.0f to %.0f, %.0f its own",
			r.Release, r.Connections, r.Tracing, all, b.Instructions, own, allWas, before.Instructions, ownWas)
		fmt.Fprintln(to, line)
		if own-ownWas > toleratedOwn*before.Instructions || all-allWas > toleratedAll*before.Instructions {
			grown = append(grown, line)
		}
	}
	if len(grown) > 0 {
		return fmt.Errorf("tracing adds more than before, by over %.1f%% of a request of Tare's own instructions, or %.1f%% in all; if that is meant, commit what `make weight-exact` writes:\n%s",
			100*toleratedOwn, 100*toleratedAll, strings.Join(grown, "\n"))
	}
	return nil
}

// parse takes what a guest wrote to its console.
func (r *counted) parse(console []byte) error {
	r.Tasks = map[string]float64{}
	var instructions uint64
	done, bad := false, 0
	for line := range bytes.Lines(console) {
		f := strings.Fields(string(line))
		switch {
		case len(f) == 4 && f[0] == "RESULT":
			if _, err := fmt.Sscanf(strings.Join(f, " "), "RESULT requests=%d bad=%d instructions=%d", &r.Requests, &bad, &instructions); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
		case len(f) == 3 && f[0] == "TASK":
			n, err := strconv.ParseUint(f[2], 10, 64)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			r.Tasks[f[1]] += float64(n)
		case len(f) == 3 && f[0] == "METRIC" && strings.HasPrefix(f[1], "tare_lost_total") && f[2] != "0":
			return fmt.Errorf("the agent has lost something: %s %s", f[1], f[2])
		case len(f) == 2 && f[0] == "DONE":
			done = true
		}
	}
	if !done || r.Requests == 0 || instructions == 0 {
		return fmt.Errorf("the guest did not come to its end; its console:\n%s", tail(string(console), 40))
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d responses were not 200", bad, r.Requests)
	}
	r.Instructions = float64(instructions) / float64(r.Requests)
	for name := range r.Tasks {
		r.Tasks[name] /= float64(r.Requests)
	}
	return nil
}

// attribute adds blocks up by part, by symbol and by function of the agent.
func (r *counted) attribute(blocks []block, kernel, functions symbols) {
	r.Parts, r.names, r.agent = map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, b := range blocks {
		n := float64(b.instructions*b.runs) / float64(r.Requests)
		part, name := partOf(kernel, b.at)
		r.Parts[part] += n
		r.names[name] += n
		if part == agentCode {
			r.agent[cmp.Or(functions.of(b.at), "unknown")] += n
		}
	}
}

// symbolsOf are the kernel's own, which one guest tells and the cache keeps.
func (c *counter) symbolsOf(ctx context.Context, cache string, g *countGuest) (symbols, error) {
	path := filepath.Join(cache, "symbols-"+g.release+"_"+g.version)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		dir, err := os.MkdirTemp(c.dir, "symbols-")
		if err != nil {
			return nil, err
		}
		if err := c.boot(ctx, g, dir, "count.symbols=1"); err != nil {
			return nil, err
		}
		if text, err = os.ReadFile(filepath.Join(dir, "symbols")); err != nil {
			return nil, err
		}
		if len(parseSymbols(bytes.NewReader(text))) < 10_000 {
			console, _ := os.ReadFile(filepath.Join(dir, "console")) // empty: nothing came
			return nil, fmt.Errorf("the guest told no symbols; its console:\n%s", tail(string(console), 40))
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return parseSymbols(bytes.NewReader(text)), nil
}
