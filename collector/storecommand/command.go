// Package storecommand is "tare store": it looks at a store that no collector has open, and
// salvages what can be read of a damaged one. Of these only repair writes, and it writes into
// a directory of its own.
package storecommand

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/span/text"
	"github.com/tare-trace/tare/store"
)

// Command is "tare store".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look at the collector's store, check it, salvage a damaged one",
		Long: `Looks at the directory in which a collector stores traces. The collector must not run:
only one process can open a store. While it runs, its page's health view shows what
it knows about lost and damaged spans.`,
	}
	cmd.AddCommand(infoCommand(), checkCommand(), repairCommand())
	return cmd
}

func defaultDirectory() string {
	return storeextension.NewFactory().CreateDefaultConfig().(*storeextension.Config).Directory
}

// directory is the argument, or where a collector stores without configuration.
func directory(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	if dir := defaultDirectory(); dir != "" {
		return dir, nil
	}
	return "", cli.Usagef("name the directory of the store: this user has no home directory to take a default from")
}

func infoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info [DIRECTORY]",
		Short: "Print what a store holds, and what is known to be lost",
		Long: `Prints how many spans and traces a store holds, of what time, and what it knows to be
lost: spans that were acknowledged and are not there, and files in quarantine. It
does not read the spans; "tare store check" does. The default directory is that of
a collector without configuration.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := directory(args)
			if err != nil {
				return err
			}
			r, err := store.Info(dir)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), dir, &r, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [DIRECTORY]",
		Short: "Read everything in a store, and say what is damaged or missing",
		Long: `Reads every table, log and span of a store, finds every trace by its id, and holds
what is there against what was acknowledged. It changes nothing. The exit status is
1 if anything is damaged or missing. The default directory is that of a collector
without configuration.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := directory(args)
			if err != nil {
				return err
			}
			r, err := store.Check(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if err := show(cmd.OutOrStdout(), dir, &r, asJSON); err != nil {
				return err
			}
			if !r.Sound() {
				return cli.ErrSaid
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func repairCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "repair DIRECTORY NEW-DIRECTORY",
		Short: "Salvage what can be read of a store into a new directory, and say what is gone",
		Long: `Reads what can be read in the tables and logs of a store and in its quarantine, and
writes it into a new directory, which must be empty or not there yet. The old one
stays as it is. It prints what is gone: how many spans, and of what time. The exit
status is 0 if all that can be read was salvaged, whatever is gone.

Spans that are stored twice are once in the new directory. Put it in the place of
the old one, or name it in the collector's configuration.`,
		Example: `  tare store repair /var/lib/tare/store /var/lib/tare/store.repaired`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			r, err := store.Repair(cmd.Context(), args[0], args[1], log)
			if err != nil {
				return err
			}
			return showRepaired(cmd.OutOrStdout(), args[1], &r, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// report is the output of info and check as JSON.
type report struct {
	Directory string                       `json:"directory"`
	Sound     bool                         `json:"sound"`
	Opens     string                       `json:"opens"` // why it cannot be opened, "" if it can
	Format    int                          `json:"format"`
	Spans     uint64                       `json:"spans"`
	Traces    uint64                       `json:"traces"`
	Chunks    int                          `json:"chunks"`
	Bytes     uint64                       `json:"bytes"`
	Oldest    string                       `json:"oldest"` // RFC 3339, "" if it is empty
	Newest    string                       `json:"newest"`
	Age       duration.Duration            `json:"retention_age"`      // as the collector had it that opened the store last; 0s: no limit
	Services  map[string]duration.Duration `json:"retention_services"` // by patterns of names
	Overdue   uint64                       `json:"overdue_spans"`      // of spans: no query shows them, since the retention of their service is over
	Lost      uint64                       `json:"lost_spans"`
	Damaged   uint64                       `json:"unreadable_spans"`
	Files     []string                     `json:"damaged_files"`
	Aside     []string                     `json:"quarantine"`
	Notes     []string                     `json:"notes"`
	Gone      []gone                       `json:"gone"`
}

// gone are spans that were written together, or merged.
type gone struct {
	Spans  uint32 `json:"spans"`
	Oldest string `json:"oldest"`
	Newest string `json:"newest"`
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func goneOf(lost []store.LostChunk) []gone {
	list := make([]gone, 0, len(lost))
	for _, c := range lost {
		list = append(list, gone{c.Spans, timeText(c.Oldest), timeText(c.Newest)})
	}
	return list
}

func show(w io.Writer, dir string, r *store.Report, asJSON bool) error {
	s, d := r.Stats, r.Damage
	out := report{
		Directory: dir, Sound: r.Sound(), Format: s.Version, Spans: s.Spans, Traces: s.Traces, Chunks: r.Chunks, Bytes: s.Bytes,
		Oldest: timeText(s.Oldest), Newest: timeText(s.Newest), Lost: d.LostSpans, Damaged: d.UnreadableSpans,
		Files: append([]string{}, d.Files...), Aside: append([]string{}, d.Quarantine...), Notes: append([]string{}, d.Notes...), Gone: goneOf(d.Lost),
		Age: duration.Duration(r.Retention.Age), Services: map[string]duration.Duration{}, Overdue: s.Overdue,
	}
	for p, age := range r.Retention.Services {
		out.Services[p] = duration.Duration(age)
	}
	if r.Opens != nil {
		out.Opens = r.Opens.Error()
	}
	if asJSON {
		return encode(w, out)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := rowOf(t)
	row("store", "%s", dir)
	if out.Opens != "" {
		row("cannot be opened", "%s", out.Opens)
	} else {
		row("spans", "%d, of %d traces", out.Spans, out.Traces)
		row("on disk", "%s, in %d chunks", humanize.IBytes(out.Bytes), out.Chunks)
		if out.Oldest != "" {
			row("from, to", "%s, %s", out.Oldest, out.Newest)
		}
	}
	if out.Age > 0 {
		row("kept for", "%v", out.Age)
	}
	for _, p := range slices.Sorted(maps.Keys(out.Services)) {
		row("kept for", "%v, of services %s", out.Services[p], p)
	}
	if out.Overdue > 0 {
		row("expired", "%d of these spans: no query shows them, and they will be removed", out.Overdue)
	}
	if out.Lost > 0 {
		row("lost", "%d spans that were acknowledged are not there", out.Lost)
	}
	if out.Damaged > 0 {
		row("damaged", "%d spans are in chunks of which a part cannot be read", out.Damaged)
	}
	rows(row, "", out.Gone)
	for _, f := range out.Files {
		row("damaged or missing file", "%s", f)
	}
	for _, n := range out.Notes {
		row("found", "%s", n)
	}
	for _, f := range out.Aside {
		row("in quarantine", "%s", f)
	}
	if out.Sound {
		row("state", "sound")
	} else {
		row("state", "damaged: salvage what can be read by `tare store repair %s NEW-DIRECTORY`", dir)
	}
	return t.Flush()
}

// rowOf writes rows of a table. Names of files and services are others'.
func rowOf(t io.Writer) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(t, "%s\t%s\n", name, text.Visible(fmt.Sprintf(format, args...))) // to memory, until it is flushed
	}
}

func rows(row func(name, format string, args ...any), to string, list []gone) {
	for _, g := range list {
		row("gone"+to, "%d spans of %s to %s", g.Spans, g.Oldest, g.Newest)
	}
}

func showRepaired(w io.Writer, to string, r *store.Repaired, asJSON bool) error {
	list := goneOf(r.Gone)
	if asJSON {
		return encode(w, struct {
			Directory string   `json:"directory"`
			Spans     uint64   `json:"spans"`
			Doubles   uint64   `json:"doubles"`
			Lost      uint64   `json:"lost_spans"`
			Gone      []gone   `json:"gone"`
			Files     []string `json:"damaged_files"`
		}{to, r.Spans, r.Doubles, r.GoneSpans(), list, append([]string{}, r.Files...)})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := rowOf(t)
	row("salvaged", "%d spans, in %s", r.Spans, to)
	if r.Doubles > 0 {
		row("doubles", "%d spans were there more than once", r.Doubles)
	}
	if n := r.GoneSpans(); n > 0 {
		row("gone", "%d spans", n)
	} else {
		row("gone", "nothing, as far as the ledger knows")
	}
	rows(row, ", of these", list)
	for _, f := range r.Files {
		row("damaged or missing file", "%s", f)
	}
	return t.Flush()
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
