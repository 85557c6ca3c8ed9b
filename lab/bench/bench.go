// Package bench runs experiments: round after round, every variant of a cell
// once in random order. Each run has services that were started for it, and its
// result is on the disk before the next run begins. The package refuses to
// judge: it writes what was measured and read back; package analysis decides
// what that means.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/progress"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/resolver"
	"github.com/tare-trace/tare/workloads"
)

// failuresInARow end an experiment: something is broken, and it is not the
// machine's noise.
const failuresInARow = 3

// Options of an experiment's run.
type Options struct {
	Experiment *experiment.Experiment
	Profile    string
	Dir        string
	Resume     bool
	Install    bool   // packages that are missing
	Tare       string // executable whose agent is run; "": this one
	Version    string // of this program
	Seed       uint64 // of the order of runs
	Listen     string // address of /metrics; "": none
	Out        io.Writer
}

// bench is an experiment under way.
type bench struct {
	opts     Options
	manifest *record.Manifest
	dir      *directory
	stage    *Stage
	cells    []experiment.Cell
	profile  experiment.Profile
	live     *live
	line     *progress.Line
}

// Run runs an experiment, or the rest of an interrupted one, and writes its
// records into the directory. It leaves no process behind, however it ends.
func Run(ctx context.Context, opts Options) (err error) {
	// The generator holds a thread of its own while it waits for the next
	// request to be due; sink and meter must not wait for it.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 2))
	b := &bench{opts: opts, live: newLive()}
	var runs []record.Run
	if opts.Resume {
		runs, err = b.resume()
	} else {
		err = b.begin()
	}
	if err != nil {
		return err
	}
	if opts.Install {
		if err := b.install(ctx); err != nil {
			return err
		}
	}
	if err := b.tools(); err != nil {
		return err
	}
	if b.dir == nil {
		if b.dir, err = createDir(opts.Dir, b.manifest); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, b.dir.close()) }()
	if opts.Listen != "" {
		stop, err := b.live.serve(opts.Listen)
		if err != nil {
			return err
		}
		defer stop()
	}
	var note string
	if b.stage, note, err = NewStage(opts.Tare, true); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stage.Close()) }()
	b.stage.Results, b.stage.Say = opts.Dir, b.say
	if note != "" {
		b.note(note)
	}
	if b.manifest.Experiment.NeedsNames() {
		if err := b.stage.Resolve(ctx); err != nil {
			return err
		}
	}
	b.live.total(len(schedule(b.cells, b.profile, b.manifest.Seed)), 0)
	if err := b.preflight(ctx); err != nil {
		return err
	}
	if err := b.calibrate(ctx); err != nil {
		return err
	}
	if err := b.dir.writeManifest(b.manifest); err != nil {
		return err
	}
	if err := b.runAll(ctx, runs); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted; go on with: tare bench run --resume --out %s", opts.Dir)
		}
		return fmt.Errorf("%w\nwhat was measured is kept in %s; go on with --resume", err, opts.Dir)
	}
	b.manifest.End = time.Now().UTC()
	return b.dir.writeManifest(b.manifest)
}

func (b *bench) say(format string, args ...any) {
	if b.line != nil {
		b.line.Say(format, args...)
		return
	}
	_, _ = fmt.Fprintf(b.opts.Out, format+"\n", args...) // nobody may be looking
}

// note is something that a reader of the results must know.
func (b *bench) note(text string) {
	if slices.Contains(b.manifest.Notes, text) {
		return
	}
	b.manifest.Notes = append(b.manifest.Notes, text)
	b.say("note: %s", text)
}

// begin prepares a new experiment.
func (b *bench) begin() error {
	e := b.opts.Experiment
	b.manifest = &record.Manifest{
		Version: record.Version, Tare: b.opts.Version, Commit: cli.Commit(),
		Experiment: e, Profile: b.opts.Profile, Seed: b.opts.Seed,
		Machine: describe(), Versions: map[string]string{}, Begin: time.Now().UTC(),
		LeftOut: map[string]string{}, NotOffered: map[string]string{}, Calibrated: map[string]float64{},
	}
	return b.plan()
}

func (b *bench) plan() error {
	e := b.manifest.Experiment
	if err := runnable(e); err != nil { // by an earlier version, perhaps
		return err
	}
	cells, err := e.Cells(b.manifest.Profile)
	b.cells, b.profile = cells, e.Profiles[b.manifest.Profile]
	return err
}

// resume reads the directory: the experiment is the one that was begun, whatever
// its file says now.
func (b *bench) resume() ([]record.Run, error) {
	m, runs, err := Read(b.opts.Dir)
	if err != nil {
		return nil, err
	}
	if name := b.opts.Experiment; name != nil && name.Name != m.Experiment.Name {
		return nil, fmt.Errorf("%s holds results of experiment %s, not %s", b.opts.Dir, m.Experiment.Name, name.Name)
	}
	if here := describe(); here.Kernel != m.Machine.Kernel || here.CPUs != m.Machine.CPUs || here.Model != m.Machine.Model {
		return nil, fmt.Errorf("%s was begun on another machine or kernel (%d CPUs, %s, %s): runs of different machines cannot be compared; begin anew in another --out",
			b.opts.Dir, m.Machine.CPUs, m.Machine.Model, m.Machine.Kernel)
	}
	if c := cli.Commit(); c != m.Commit {
		return nil, fmt.Errorf("%s was begun with another build (%s, this one is %s): begin anew in another --out, or go on with that build", b.opts.Dir, orUnknown(m.Commit), orUnknown(c))
	}
	b.manifest = m
	if m.LeftOut == nil {
		m.LeftOut = map[string]string{}
	}
	if m.NotOffered == nil {
		m.NotOffered = map[string]string{}
	}
	if m.Calibrated == nil {
		m.Calibrated = map[string]float64{}
	}
	if m.Versions == nil {
		m.Versions = map[string]string{}
	}
	if err := b.plan(); err != nil {
		return nil, err
	}
	if b.dir, err = openDir(b.opts.Dir); err != nil {
		return nil, err
	}
	return runs, nil
}

func orUnknown(commit string) string {
	if commit == "" {
		return "of an unknown commit"
	}
	return commit
}

// install sees to the packages of the workloads and tools.
func (b *bench) install(ctx context.Context) error {
	var all []workloads.Requirement
	for _, c := range b.cells {
		needed, err := workloads.Requirements(c.Workload.Kind)
		if err != nil {
			return err
		}
		d, err := load.Find(c.Load.Tool)
		if err != nil {
			return err
		}
		if executable, debian := d.Program(); executable != "" {
			needed = append(needed, workloads.Requirement{Executable: executable, Package: debian})
		}
		all = append(all, needed...)
	}
	if b.manifest.Experiment.NeedsNames() {
		all = append(all, resolver.Requirement)
	}
	return workloads.Ensure(ctx, b.opts.Out, all)
}

// tools asks for the programs that send load before anything is started.
func (b *bench) tools() error {
	for _, c := range b.cells {
		d, err := load.Find(c.Load.Tool)
		if err == nil && c.Workload.Post && !d.CanPost() {
			err = fmt.Errorf("%s: the load generator %s sends no bodies: take a load without tool", c.Name, c.Load.Tool)
		}
		if err == nil {
			err = load.Available(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runAll makes the runs that are not done yet.
func (b *bench) runAll(ctx context.Context, done []record.Run) error {
	todo := schedule(b.cells, b.profile, b.manifest.Seed)
	todo, kept := unfinished(todo, done)
	if err := b.dir.keepOnly(done, func(r *record.Run) bool { return kept[r.ID] }); err != nil {
		return err
	}
	if len(done) > 0 {
		b.say("%d runs are done, %d are left", len(kept), len(todo))
	}
	b.live.total(len(todo)+len(kept), len(kept))
	b.line = progress.New(b.opts.Out, steps(todo))
	defer func() {
		b.line.Stop()
		b.line = nil
	}()
	failed := 0
	for i, p := range todo {
		b.line.Begin(p.id())
		rec, err := b.one(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err() // what was cut off is no run
		}
		if err != nil {
			failed++
			rec.Failed = err.Error()
			b.say("run %s failed: %s", p.id(), firstLine(err))
		} else {
			failed = 0
		}
		if err := b.dir.append(rec); err != nil {
			return err
		}
		b.live.ran(rec, i+1+len(kept))
		if failed == failuresInARow {
			return fmt.Errorf("%d runs in a row failed, the last one (%s): %w", failed, p.id(), err)
		}
	}
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// unfinished takes off the runs whose whole group is done; kept are their ids.
// Where a group was cut off, all of it is made anew: its runs would be compared
// across the interruption otherwise.
func unfinished(todo []planned, done []record.Run) (left []planned, kept map[string]bool) {
	have := map[string]bool{}
	for i := range done {
		have[done[i].ID] = true
	}
	broken := map[string]bool{}
	for _, p := range todo {
		if !have[p.id()] {
			broken[p.group()] = true
		}
	}
	kept = map[string]bool{}
	for _, p := range todo {
		if broken[p.group()] {
			left = append(left, p)
		} else {
			kept[p.id()] = true
		}
	}
	return left, kept
}

func (b *bench) one(ctx context.Context, p planned) (*record.Run, error) {
	rec := &record.Run{ID: p.id(), Cell: p.cell.Name, Round: p.round, Order: p.order}
	b.live.running(p)
	err := b.stage.Run(ctx, b.job(p), rec)
	return rec, err
}

func (b *bench) job(p planned) Job {
	j := Job{
		Kind: p.kind, Workload: p.cell.Workload, Load: *p.cell.Load, Variant: p.variant,
		Warmup: p.warmup, Window: p.window,
		// Where traces are checked in runs of their own, measured ones need
		// not pay for keeping them.
		Keep: p.kind == record.Checked || p.kind == record.Measured && p.check == 0,
	}
	if rate, ok := b.manifest.Calibrated[p.cell.Name]; ok {
		j.Load.Rate = rate
	}
	if n := p.cell.Workload.Connections; n > 0 {
		j.Load.Connections = n
	}
	if p.kind == record.Checked {
		j.Requests = p.check
	}
	return j
}
