package analysis

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tare-trace/tare/lab/record"
)

// columns of the comparison's table.
var columns = []string{"cell", "variant", "metric", "effect in A", "effect in B", "change of the effect"}

func (c *Comparison) rows() [][]string {
	rows := make([][]string, 0, len(c.Changes))
	for i := range c.Changes {
		ch := &c.Changes[i]
		if ch.still() {
			continue // nothing on either side: a row of zeros hides the others
		}
		m, _ := record.MetricOf(ch.Metric)
		name := m.Name
		if m.Unit != "1" {
			name += " (" + m.Unit + ")"
		}
		side := func(e Effect) string {
			middle, interval := e.Change(m)
			return fmt.Sprintf("%s (%s, n=%d)", middle, interval, e.Estimate.N)
		}
		rows = append(rows, []string{
			ch.Cell, ch.Variant, name,
			side(Effect{As: ch.As, Estimate: ch.A}), side(Effect{As: ch.As, Estimate: ch.B}),
			ch.Text,
		})
	}
	return rows
}

func (c *Comparison) summary() string {
	return fmt.Sprintf("A is %s, B is %s. Effects are against each side's own baseline.", c.A, c.B)
}

// found are sentences: each change that is significant, the greatest first, or that there is none.
func (c *Comparison) found() []string {
	var changed []*Change
	for i := range c.Changes {
		if c.Changes[i].Verdict.Distinguishable {
			changed = append(changed, &c.Changes[i])
		}
	}
	if len(changed) == 0 {
		return []string{fmt.Sprintf("Nothing changed that can be told from noise, in %s.", plural(len(c.Changes), "comparison"))}
	}
	slices.SortStableFunc(changed, func(x, y *Change) int { return cmp.Compare(y.size(), x.size()) })
	out := []string{fmt.Sprintf("Changed significantly: %d of %s; the others cannot be told from no change.", len(changed), plural(len(c.Changes), "comparison"))}
	for _, ch := range changed {
		m, _ := record.MetricOf(ch.Metric)
		a, _ := (&Effect{As: ch.As, Estimate: ch.A}).Change(m)
		b, _ := (&Effect{As: ch.As, Estimate: ch.B}).Change(m)
		out = append(out, fmt.Sprintf("On %s, %s changes the %s by %s, where it was %s: %s.", ch.Cell, ch.Variant, m.Name, b, a, ch.Text))
	}
	return out
}

// size orders changes: by ratio, and differences by how far they are beyond their noise.
func (c *Change) size() float64 {
	if c.As == Ratio {
		return math.Abs(math.Log(c.Change.Median))
	}
	if c.Verdict.Floor > 0 {
		return math.Log(math.Abs(c.Change.Median) / c.Verdict.Floor)
	}
	return math.Inf(1)
}

// WriteText writes the comparison for a terminal.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, c.summary())
	for _, w := range c.Warnings {
		fmt.Fprintln(&b, "warning: "+w)
	}
	b.WriteString("\n")
	for i, f := range c.found() {
		fmt.Fprintln(&b, strings.Repeat("  ", min(i, 1))+f)
	}
	b.WriteString("\n")
	rows := append([][]string{columns}, c.rows()...)
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, s := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, s := range row {
			line.WriteString(s + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s)+2))
		}
		fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
	}
	c.only(&b, "")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the comparison as GitHub has it.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", escape(c.summary()))
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "- Warning: %s\n", escape(w))
	}
	if len(c.Warnings) > 0 {
		b.WriteString("\n")
	}
	for i, f := range c.found() {
		if i == 1 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("- ", min(i, 1)), escape(f))
	}
	b.WriteString("\n")
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, row := range c.rows() {
		for i := range row {
			row[i] = escape(row[i])
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
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
