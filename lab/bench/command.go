package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/report"
)

// Command is `tare bench`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what a way of tracing costs and what it yields",
		Long: `Runs experiments: workloads, tracers, rates and loads, in interleaved rounds with a
control that compares the untraced service with itself. docs/bench.md walks through
an experiment of your own.`,
	}
	cmd.AddCommand(listCommand(), runCommand(), reportCommand(), packCommand(), compareCommand())
	return cmd
}

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the experiments that come with tare",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return list(cmd.OutOrStdout()) },
	}
}

func list(w io.Writer) error {
	all, err := experiment.Shipped()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "EXPERIMENT\tPROFILE\tRUNS\tABOUT\tTITLE") // Flush has the error
	for _, e := range all {
		title := e.Title
		for _, profile := range e.ProfileNames() {
			cells, err := e.Cells(profile)
			if err != nil {
				return err
			}
			runs := schedule(cells, e.Profiles[profile], 1)
			_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", e.Name, profile, len(runs), roughly(about(runs)), title)
			title = ""
		}
	}
	return table.Flush()
}

// roughly is a time that nobody should rely on.
func roughly(d time.Duration) string {
	switch {
	case d >= 90*time.Minute:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= 90*time.Second:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
}

func runCommand() *cobra.Command {
	opts := Options{Profile: "quick", Seed: 1}
	noInstall, with := false, ""
	cmd := &cobra.Command{
		Use:   "run EXPERIMENT",
		Short: "Run an experiment: one that `tare bench list` shows, or a file of your own",
		Long: `Runs an experiment and writes DIR: manifest.json (machine, versions, the experiment
as it was run), results.jsonl (a line per run, with the configuration that was read
back from the running process), summary.json, report.html with all tables and figures,
and report.md, a short page with the answers, a table and one figure.

Every run is on the disk before the next one begins: what was interrupted goes on with
--resume. As root, services run in a network namespace of their own, and the bytes that
leave it are counted; without root, experiments with kernel programs cannot run.
Nothing else should run on the machine meanwhile.`,
		Example: `  sudo tare bench run null --profile quick
  sudo tare bench run coroot --profile smoke --out /tmp/coroot
  sudo tare bench run --resume --out /tmp/coroot
  tare bench run ./mine.yaml`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: experiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Install = !noInstall
			opts.Version = cmd.Root().Version
			opts.Out = cmd.ErrOrStderr()
			return runExperiment(cmd.Context(), opts, args, with, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.Profile, "profile", opts.Profile, "size: smoke, quick, full, or another that the file has")
	cli.CompleteFlag(cmd, "profile", profiles)
	f.StringVar(&opts.Dir, "out", "", "directory of the results (default: tare-bench/EXPERIMENT-PROFILE)")
	f.BoolVar(&opts.Resume, "resume", false, "go on with the experiment that --out holds")
	f.Uint64Var(&opts.Seed, "seed", opts.Seed, "of the order of runs")
	f.StringVar(&opts.Listen, "listen", "", "address of /metrics while it runs, such as 127.0.0.1:9465")
	f.StringVar(&with, "with", "", "`file` with tracers of your own, which are added to the experiment (docs/bench.md)")
	f.BoolVar(&noInstall, "no-install", false, "fail instead of installing missing packages")
	return cmd
}

// experiments offers the shipped experiments to the shell, which adds files.
func experiments(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := experiment.Shipped()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, 0, len(all))
	for _, e := range all {
		names = append(names, e.Name+"\t"+e.Title)
	}
	return names, cobra.ShellCompDirectiveDefault
}

// profiles offers those of the experiment that was named, else the usual ones.
func profiles(cmd *cobra.Command) []string {
	if args := cmd.Flags().Args(); len(args) == 1 {
		if e, err := experiment.Open(args[0], runnable); err == nil {
			return e.ProfileNames()
		}
	}
	return []string{"smoke", "quick", "full"}
}

func runExperiment(ctx context.Context, opts Options, args []string, with string, stdout io.Writer) error {
	if with != "" && len(args) == 0 {
		return cli.Usagef("--with adds tracers to an experiment that is begun: name it")
	}
	if len(args) == 1 {
		e, err := experiment.Open(args[0], runnable)
		if err == nil && with != "" {
			err = e.With(with, runnable)
		}
		if err != nil {
			return cli.Usage(err)
		}
		opts.Experiment = e
		if opts.Dir == "" {
			opts.Dir = filepath.Join("tare-bench", e.Name+"-"+opts.Profile)
		}
	} else if !opts.Resume {
		return cli.Usagef("which experiment? `tare bench list` shows them; a path of a file does, too")
	}
	if opts.Dir == "" {
		return cli.Usagef("--resume needs the directory: --out DIR")
	}
	if err := Run(ctx, opts); err != nil {
		return err
	}
	return writeReport(opts.Dir, stdout)
}

func reportCommand() *cobra.Command {
	questions := ""
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Write the report again from the records of a directory",
		Example: `  tare bench report /tmp/coroot
  tare bench report /tmp/mine --questions ./mine.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if questions != "" {
				if err := ask(args[0], questions); err != nil {
					return err
				}
			}
			return writeReport(args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&questions, "questions", "", "experiment, shipped or a file, whose questions and figures DIR has from now on: the same one, changed since it was run")
	return cmd
}

func packCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pack DIR",
		Short: "Compress the records of a finished experiment, and keep the short page",
		Long: `Writes results.jsonl.zst in place of results.jsonl, which is a tenth of its size, and
report.md with its figure again. It removes report.html and summary.json, which tare
bench report makes again, and keeps all other files: profiles and interrupted runs
cannot be made again.

Numbers that were measured are rounded to six significant digits, as tare bench run
writes them. All other commands read a packed directory as before; tare bench run
--resume unpacks it.`,
		Example: "  tare bench pack /tmp/coroot\n  tare bench report /tmp/coroot",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := pack(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "packed %s; tare bench report %[1]s writes all tables and figures\n", args[0])
			return err
		},
	}
}

// ask puts the questions and figures of an experiment into a directory of results.
func ask(dir, name string) error {
	m, _, err := Read(dir)
	if err != nil {
		return err
	}
	of, err := experiment.Open(name)
	if err != nil {
		return err
	}
	if err := m.Experiment.Ask(of); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if m.Asked = cmp.Or(cli.Commit(), "unknown"); m.Asked == m.Commit {
		m.Asked = ""
	}
	d, err := lockDir(dir) // not while it is run
	if err != nil {
		return err
	}
	return errors.Join(d.writeManifest(m), d.close())
}

// writeReport analyses and reports, and prints what was found in short.
func writeReport(dir string, w io.Writer) error {
	m, runs, err := Read(dir)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s holds no run yet: go on with `tare bench run --resume --out %s`", dir, dir)
	}
	s, err := analysis.Analyse(m, runs)
	if err != nil {
		return err
	}
	if err := report.Write(dir, m, s, runs); err != nil {
		return err
	}
	var b strings.Builder
	report.WriteFindings(&b, m, s)
	fmt.Fprintf(&b, "\nreport: %s\n        %s\n", filepath.Join(dir, "report.html"), filepath.Join(dir, "report.md"))
	_, err = io.WriteString(w, b.String())
	return err
}

func compareCommand() *cobra.Command {
	markdown := false
	cmd := &cobra.Command{
		Use:   "compare DIR DIR",
		Short: "Compare the effects that two directories of results found",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return compare(args[0], args[1], markdown, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write a Markdown table")
	return cmd
}

func compare(a, b string, markdown bool, w io.Writer) error {
	first, err := analysed(a)
	if err != nil {
		return err
	}
	second, err := analysed(b)
	if err != nil {
		return err
	}
	c, err := analysis.Compare(first, second)
	if err != nil {
		return err
	}
	if markdown {
		return c.WriteMarkdown(w)
	}
	return c.WriteText(w)
}

func analysed(dir string) (analysis.Results, error) {
	m, runs, err := Read(dir)
	if err != nil {
		return analysis.Results{}, err
	}
	s, err := analysis.Analyse(m, runs)
	if err != nil {
		return analysis.Results{}, fmt.Errorf("%s: %w", dir, err)
	}
	return analysis.Results{Name: dir, Manifest: m, Summary: s}, nil
}
