// Package doctor is the command "tare doctor": it loads and attaches the kernel programs
// of every tier as the agent does, removes them again, and shows which tiers work here,
// without what, or why not, in the kernel's own words; then facts about the host.
//
// It traces nothing, gives no advice on how to weaken a machine, and does not guess:
// what it could not try it calls unknown.
//
// The exit status is 0 if the agent can run here with these privileges, else 1.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/doctor/path"
	"github.com/tare-trace/tare/internal/cli"
)

// ErrCannotRun makes the exit status 1. Standard output has the reasons.
var ErrCannotRun = fmt.Errorf("the agent cannot run here: %w", cli.ErrSaid)

// Command is "tare doctor".
func Command() *cobra.Command {
	var asJSON bool
	var peer, answer string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show whether the agent can run here, and with which hooks",
		Long: `Shows which tiers (sets of kernel programs) work with this kernel and these
privileges, by loading and attaching each as the agent does, and removing it
again. No process is traced meanwhile. Without root it shows what could not be tried.

With --peer it asks instead whether Tare's TCP options survive the path to another
host, hop by hop, and who takes them away; something has to listen there, which gets a
connection and no data. With "tare doctor --answer :PORT" at the other end, that says
what arrived, and the way back is known, too.

Exit status: 0 if the agent can run here with these privileges, or if nothing speaks
against tags on the path; else 1.`,
		Example: `  sudo tare doctor
  sudo tare doctor --answer :7011               # on 10.0.0.2
  sudo tare doctor --peer 10.0.0.2:7011         # here`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case answer != "" && (peer != "" || asJSON):
				return cli.Usagef("--answer goes with no other flag")
			case answer != "":
				return path.Answer(cmd.Context(), answer, func(format string, args ...any) { cmd.PrintErrf(format+"\n", args...) })
			case peer != "":
				return probe(cmd.Context(), peer, cmd.OutOrStdout(), asJSON)
			}
			return run(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object; with --peer one for each address")
	cmd.Flags().StringVar(&peer, "peer", "", "ask about the path to `HOST:PORT`")
	cmd.Flags().StringVar(&answer, "answer", "", "answer those who ask at `ADDRESS:PORT`, until Ctrl-C")
	return cmd
}

// ErrPath makes the exit status 1. Standard output has the reasons.
var ErrPath = fmt.Errorf("tags do not survive the path: %w", cli.ErrSaid)

func probe(ctx context.Context, peer string, out io.Writer, asJSON bool) error {
	if _, _, err := net.SplitHostPort(peer); err != nil {
		return cli.Usagef("--peer: %w", err)
	}
	reports, err := path.Probe(ctx, peer)
	if err != nil {
		return err
	}
	ok := true
	for _, r := range reports {
		ok = ok && r.OK()
		if asJSON {
			err = errors.Join(err, json.NewEncoder(out).Encode(r))
		} else {
			err = errors.Join(err, r.Print(out))
		}
	}
	if err == nil && !ok {
		err = ErrPath
	}
	return err
}

func run(out io.Writer, asJSON bool) error {
	d := Examine()
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
	switch d.Verdict {
	case CanRun:
		p.line("verdict     the agent can run here")
	case NeedsPrivileges:
		p.line("verdict     the agent cannot run as this user; nothing else is known to be missing: run tare doctor as root to be sure")
	case CannotRun:
		p.line("verdict     the agent cannot run here: this kernel refuses every tier")
	}
	p.line("tier        %s", d.Tier)
	p.line("")

	for _, t := range d.Tiers {
		p.tier(t)
	}
	p.line("")

	p.line("kernel      %s %s", d.Kernel, d.Machine)
	p.line("lockdown    %s", d.Lockdown)
	btf := "/sys/kernel/btf/vmlinux"
	if !d.BTF {
		btf = "absent: the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)"
	}
	p.line("btf         %s", btf)
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
	p.line("")
	p.table("FEATURE\tOPTION\tSTATE\tWITHOUT IT", func(row func(...string)) {
		for _, f := range d.Features {
			state := string(f.State)
			if f.Error != "" {
				state += " (" + f.Error + ")"
			}
			row(f.Name, f.Option, state, f.Without)
		}
	})
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

// tier writes a tier's state beside its name, and what it does without below.
func (p *printer) tier(t Tier) {
	text := string(t.State)
	if t.State == Partial {
		text = string(Works)
	}
	if t.ByName {
		text += " (taken only if asked for: --tier " + t.Name + ")"
	}
	switch {
	case t.State == Partial:
		text += " without:"
	case t.Program != "":
		text += ": " + t.Program + " at " + t.Hook + ": " + t.Error
	case t.Error != "":
		text += ": " + t.Error
	}
	if t.State == Refused && t.Since != "" {
		text += " (it is for Linux " + t.Since + " and newer)"
	}
	p.line("%-11s %s", t.Name, text)
	for _, l := range t.Lost {
		p.line("%-11s   %s: %s (%s)", "", l.Capability, l.Without, l.Reason)
	}
}

// table aligns rows.
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
}
