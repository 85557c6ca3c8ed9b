package analysis

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// TextTable aligns columns by spaces, for a terminal.
func TextTable(head []string, rows [][]string) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		_, _ = fmt.Fprintln(t, strings.Join(row, "\t")) // a builder takes everything
	}
	_ = t.Flush()
	return b.String()
}

// MarkdownTable is a table as GitHub has it; escape is applied to the cells below the head.
func MarkdownTable(head []string, rows [][]string, escape func(string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = escape(text)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}
