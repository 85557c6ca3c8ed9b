package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// matrix writes the table of kernels and tests from what integration/kernels recorded.
func matrix(results, doc string) error {
	text, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	var columns []struct {
		Kernel, Release, Version, Commit, Date, Tier string
		Walked                                       map[string]int
		Cells                                        []struct{ What, Test, Result string }
	}
	if err := json.Unmarshal(text, &columns); err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	var whats []string // rows, of the newest table of tests
	cells := map[[2]string]string{}
	lines := map[string]string{}
	rows := []string{"", "Linux", "Debian's package", "run on", "commit", "tier", "instructions that the verifier walks, largest program"}
	for _, c := range columns {
		var walked []string
		for _, tier := range slices.Sorted(maps.Keys(c.Walked)) {
			walked = append(walked, fmt.Sprintf("`%s` %d", tier, c.Walked[tier]))
		}
		for i, value := range []string{"**" + c.Kernel + "**", c.Release, c.Version, c.Date, c.Commit, "`" + c.Tier + "`", strings.Join(walked, ", ")} {
			lines[rows[i]] += " | " + value
		}
		for _, cell := range c.Cells {
			if !slices.Contains(whats, cell.What) {
				whats = append(whats, cell.What)
			}
			cells[[2]string{c.Kernel, cell.What}] = cell.Result
		}
	}
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s%s |\n", row, lines[row])
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(columns)+1) + "|\n")
		}
	}
	for _, what := range whats {
		fmt.Fprintf(&b, "| %s", what)
		for _, c := range columns {
			result := cells[[2]string{c.Kernel, what}]
			switch result {
			case "pass":
			case "":
				result = "–"
			default:
				result = "**" + result + "**"
			}
			b.WriteString(" | " + result)
		}
		b.WriteString(" |\n")
	}
	return replace(doc, "test-kernels", b.String())
}
