// Package doctor is the command "tare doctor": it shows what this kernel and these
// privileges allow, which tier the agent would use, what is missing and which capability
// is lost without it.
//
// It changes nothing, gives no advice on how to weaken a machine, and does not guess:
// what it could not try it calls unknown.
//
// The exit status is 0 if the agent can run here with these privileges, else 1.
package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/agent/probe"
)

// ErrCannotRun makes the exit status 1. Standard output has the reasons.
var ErrCannotRun = errors.New("the agent cannot run here")

// Verdict is the result in a few words.
type Verdict string

// The verdicts. NeedsPrivileges: as far as known only privileges are missing, to run
// the agent or to probe the kernel.
const (
	CanRun          Verdict = "can run"
	NeedsPrivileges Verdict = "needs privileges"
	CannotRun       Verdict = "cannot run"
)

// Diagnosis is what --json prints.
type Diagnosis struct {
	Verdict Verdict    `json:"verdict"`
	Tier    probe.Tier `json:"tier"`
	probe.Report
}

// Diagnose judges a report.
func Diagnose(r probe.Report) Diagnosis {
	d := Diagnosis{Tier: probe.Choose(&r), Report: r, Verdict: CanRun}
	switch {
	case len(d.Tier.Missing) > 0:
		d.Verdict = CannotRun
	case d.Tier.Name == probe.NoTier && !r.Privileged():
		d.Verdict = NeedsPrivileges
	case d.Tier.Name == probe.NoTier:
		d.Verdict = CannotRun
	}
	return d
}

// Command is "tare doctor".
func Command() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show whether the agent can run here, and with which features",
		Long: `Shows what this kernel and these privileges allow, by trying it: tiny kernel
programs are loaded, one is attached to the cgroup hierarchy, and all are
removed again. Without root it shows what could not be tried.

Exit status: 0 if the agent can run here with these privileges, else 1.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func run(out io.Writer, asJSON bool) error {
	d := Diagnose(probe.Run())
	var err error
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(d)
	} else {
		err = d.Print(out)
	}
	if err == nil && d.Verdict != CanRun {
		err = ErrCannotRun
	}
	return err
}

// Print writes the diagnosis for people.
func (d Diagnosis) Print(out io.Writer) error {
	p := &printer{out: out}
	p.line("kernel      %s %s", d.Kernel, d.Machine)
	p.line("lockdown    %s", d.Lockdown)
	cgroup := d.CgroupV2
	if cgroup == "" {
		cgroup = "not mounted"
	}
	p.line("cgroup v2   %s", cgroup)
	names := make([]string, 0, len(d.Sysctls))
	for name := range d.Sysctls {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = name + "=" + d.Sysctls[name]
	}
	p.line("sysctl      %s", strings.Join(names, "  "))
	p.line("")

	p.table("CAPABILITY\tEFFECTIVE\tNEEDED FOR", func(row func(...string)) {
		for _, c := range d.Capabilities {
			state := "no"
			if c.Effective {
				state = "yes"
			}
			row(c.Name, state, c.Needed)
		}
	})
	p.table("FEATURE\tWORKS\tNEEDED FOR", func(row func(...string)) {
		for _, f := range d.Features {
			row(f.Name, string(f.State), f.Needed)
		}
	})
	p.missing("MISSING", "WHAT THAT COSTS", d.Features, probe.No)
	p.missing("NOT TRIED", "WITHOUT IT", d.Features, probe.Unknown)
	p.conclusion(d)
	return p.err
}

type printer struct {
	out io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// table aligns rows and ends with an empty line.
func (p *printer) table(head string, fill func(row func(...string))) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		if p.err == nil {
			_, p.err = fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
	}
	row(head)
	fill(row)
	if p.err == nil {
		p.err = w.Flush()
	}
	p.line("")
}

// missing lists the features in one state; nothing if there are none.
func (p *printer) missing(title, cost string, features []probe.Result, state probe.State) {
	var those []probe.Result
	reasons := map[string]bool{}
	for _, f := range features {
		if f.State == state {
			those = append(those, f)
			reasons[f.Error] = true
		}
	}
	if len(those) == 0 {
		return
	}
	if len(those) > 1 && len(reasons) == 1 { // say it once
		p.line("%s (%s)", title, those[0].Error)
		p.table("FEATURE\t"+cost, func(row func(...string)) {
			for _, f := range those {
				row(f.Name, f.Without)
			}
		})
		return
	}
	p.table(title+"\t"+cost+"\tREASON", func(row func(...string)) {
		for _, f := range those {
			row(f.Name, f.Without, f.Error)
		}
	})
}

func (p *printer) conclusion(d Diagnosis) {
	p.line("tier        %s", d.Tier.Name)
	for _, l := range d.Tier.Lost {
		p.line("lost        %s: %s", l.Capability, l.Without)
	}
	switch d.Verdict {
	case CanRun:
		p.line("verdict     the agent can run here")
	case NeedsPrivileges:
		p.line("verdict     the agent cannot run as this user; nothing else is known to be missing: run tare doctor as root to be sure")
	case CannotRun:
		p.line("verdict     the agent cannot run here: %s", strings.Join(slices.Concat(d.Tier.Missing, d.Tier.Unknown), ", "))
	}
}
