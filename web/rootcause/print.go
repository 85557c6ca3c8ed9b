package rootcause

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/tare-trace/tare/span/text"
)

// Rows that are printed.
const (
	printRows  = 8
	printTails = 5
)

// Print writes the diagnosis for people.
func Print(out io.Writer, d Diagnosis) error {
	p := &printer{out: out}
	if d.Traces == 0 && d.Retro == 0 {
		p.line("no trace matches")
		return p.err
	}
	if d.More {
		p.line("the newest %s; there are more\n", plural(d.Traces, "trace"))
	}
	for i := range d.Entries {
		if i > 0 {
			p.line("")
		}
		p.entry(&d.Entries[i], d.Share)
	}
	if d.Others > 0 {
		p.line("\n%d more entry operations, with fewer requests, are not shown", d.Others)
	}
	if d.Large > 0 {
		p.line("\n%s left out that are too large for the memory of queries", plural(d.Large, "trace"))
	}
	if d.Retro > 0 {
		p.line("\n%s left out that were kept retroactively: only head-sampled traces show what is normal", plural(d.Retro, "trace"))
	}
	if d.NoRoot > 0 {
		p.line("\n%s without a known root left out", plural(d.NoRoot, "trace"))
	}
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

func (p *printer) entry(e *Entry, share float64) {
	p.line("%s: %s", text.Visible(strings.TrimSpace(e.Service+" "+e.Operation)), e.counts())
	if len(e.Operations) > 0 {
		p.line("slow    %s, %s to %s, mean %s: the slowest %s", plural(e.Slow.Traces, "trace"), duration(e.Slow.From), duration(e.Slow.To), duration(e.Slow.Mean), percent(share))
		p.line("normal  %s, %s to %s, mean %s: the middle half", plural(e.Normal.Traces, "trace"), duration(e.Normal.From), duration(e.Normal.To), duration(e.Normal.Mean))
	}
	p.line("\n%s", text.Visible(e.Verdict.Text))
	for _, n := range e.Verdict.Notes {
		p.line("  - %s", text.Visible(n))
	}
	if len(e.Operations) == 0 {
		return
	}
	p.line("")
	p.table("EXPLAINS\t(95%)\tOPERATION\tITSELF, NORMAL\tSLOW\tSLOWER BY\t(95%)\tWAITS\t", len(e.Operations), printRows, func(i int) []string {
		r := &e.Operations[i]
		waits := "–"
		if r.Kind == Own {
			waits = signed(r.Waits)
		}
		return []string{percent(r.Explains.Value), r.Explains.limits(percent), r.Name() + r.mark(), duration(r.Normal), duration(r.Slow),
			signed(r.Excess.Value), r.Excess.limits(signed), waits}
	})
	if ids := causeExamples(e); len(ids) > 0 {
		p.line("slow traces    %s", strings.Join(ids, " "))
		p.line("normal traces  %s", strings.Join(e.Examples, " "))
	}
	if len(e.Tails) > 0 {
		p.line("\nheaviest tails, of all spans, waited for or not")
		p.table("P99/P50\tP50\tP99\tSPANS\tOPERATION\tEXPLAINS\t", len(e.Tails), printTails, func(i int) []string {
			t := &e.Tails[i]
			r := Row{Kind: t.Kind, Service: t.Service, From: t.From, Operation: t.Operation}
			return []string{fmt.Sprintf("%.1f", t.Ratio), duration(t.P50), duration(t.P99), fmt.Sprint(t.Spans), r.Name(), percent(t.Explains)}
		})
	}
}

func (p *printer) table(head string, n, most int, row func(i int) []string) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.TrimSuffix(head, "\t")) // a tabwriter keeps no error before Flush
	for i := range min(n, most) {
		cells := row(i)
		for k := range cells {
			cells[k] = text.Visible(cells[k])
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); p.err == nil {
		p.err = err
	}
	if n > most {
		p.line("(%d more: --json)", n-most)
	}
}

func (e *Entry) counts() string {
	text := plural(e.Traces, "trace")
	if e.Requests >= 1.005*float64(e.Traces) {
		text += fmt.Sprintf(" of about %.0f requests", e.Requests)
	}
	if e.Incomplete > 0 {
		text += fmt.Sprintf(", %d incomplete ones left out", e.Incomplete)
	}
	return text
}

func causeExamples(e *Entry) (ids []string) {
	for i := range e.Verdict.Causes {
		ids = append(ids, e.Verdict.Causes[i].Examples...)
	}
	return ids
}

func (r *Row) mark() string {
	mark := map[Role]string{Waits: " (only waits)", Cause: " ◀"}[r.Role]
	if r.Kind == Peer {
		mark = " (sends no spans)" + mark
	}
	return mark
}

func (i Interval) limits(text func(float64) string) string {
	return text(i.Lo) + " to " + text(i.Hi)
}

// duration is nanoseconds with three digits, in a unit that suits.
func duration(ns float64) string {
	a := math.Abs(ns)
	unit, size := "s", 1e9
	switch {
	case a < 999.5e3:
		unit, size = "µs", 1e3
	case a < 999.5e6:
		unit, size = "ms", 1e6
	}
	digits := 2
	if a >= 99.95*size || a == 0 {
		digits = 0
	} else if a >= 9.995*size {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, ns/size, unit)
}

func signed(ns float64) string {
	if ns < 0 {
		return duration(ns)
	}
	return "+" + duration(ns)
}
