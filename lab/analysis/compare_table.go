package analysis

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// columns of the comparison's table.
var columns = []string{"cell", "variant", "metric", "effect in A", "effect in B", "change of the effect", "95% interval", "n", "verdict"}

// rows of the changes, the greatest of those that are resolved first.
func (c *Comparison) rows() [][]string {
	changes := slices.Clone(c.Changes)
	slices.SortStableFunc(changes, func(x, y Change) int { return cmp.Compare(y.size(), x.size()) })
	var rows [][]string
	for _, ch := range changes {
		if ch.still() {
			continue // nothing on either side: a row of zeros hides the others
		}
		m, _ := record.MetricOf(ch.Metric)
		side := func(of stats.Estimate) string {
			middle, interval := (&Effect{As: ch.As, Estimate: of}).Change(m)
			return measured(middle, interval, of.N)
		}
		f := Finding{Effect: &Effect{As: ch.As, Estimate: ch.Change, Verdict: ch.Verdict}}
		change, interval, n := f.text(m)
		rows = append(rows, []string{ch.Cell, ch.Variant, m.WithUnit(), side(ch.A), side(ch.B), change, interval, fmt.Sprint(n), f.verdict()})
	}
	return rows
}

// lines are what is said above the table.
func (c *Comparison) lines() []string {
	changed := 0
	for _, ch := range c.Changes {
		if ch.Verdict.Distinguishable {
			changed++
		}
	}
	out := []string{fmt.Sprintf("A is %s, B is %s. Effects are against each side's own baseline; %s the controls changed as well.", c.A, c.B, markWarning)}
	for _, w := range c.Warnings {
		out = append(out, "Warning: "+w)
	}
	return append(out, fmt.Sprintf("Changed significantly: %d of %d comparisons.", changed, len(c.Changes)))
}

// size orders changes: by ratio, and differences by how far they are beyond their noise.
func (c *Change) size() float64 {
	switch {
	case !c.Verdict.Distinguishable:
		return math.Inf(-1)
	case c.As == Ratio:
		return math.Abs(math.Log(c.Change.Median))
	case c.Verdict.Floor > 0:
		return math.Log(math.Abs(c.Change.Median) / c.Verdict.Floor)
	}
	return math.Inf(1)
}

// WriteText writes the comparison for a terminal.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", strings.Join(c.lines(), "\n"))
	b.WriteString(TextTable(columns, c.rows()))
	c.only(&b, "")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the comparison as GitHub has it.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	for _, line := range c.lines() {
		fmt.Fprintf(&b, "- %s\n", escape(line))
	}
	b.WriteString("\n" + MarkdownTable(columns, c.rows(), escape))
	c.only(&b, "- ")
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Comparison) only(b *strings.Builder, bullet string) {
	if len(c.OnlyA)+len(c.OnlyB) > 0 {
		b.WriteString("\n")
	}
	for _, side := range []struct {
		name string
		list []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(side.list) > 0 {
			fmt.Fprintf(b, "%sOnly in %s: %s\n", bullet, side.name, strings.Join(side.list, ", "))
		}
	}
}

// escape keeps text out of the table's own signs.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}
