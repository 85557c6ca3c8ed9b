package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// instructions writes the table of instructions per request from what integration/kernels has counted.
func instructions(results, doc string) error {
	text, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	type counted struct {
		Commit, Kernel, Release, Tracing string
		Connections                      int
		Instructions                     float64
		Parts                            map[string]float64
	}
	var all struct {
		QEMU, Nginx string
		Runs        []counted
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	columns := []string{"programs", "calling programs", "helpers", "agent", "receiver", "rest of the kernel"}
	var b strings.Builder
	var commits []string
	for _, r := range all.Runs {
		if !slices.Contains(commits, r.Commit) {
			commits = append(commits, r.Commit)
		}
	}
	fmt.Fprintf(&b, "Commit %s, %s.\n\n", strings.Join(commits, " and "), strings.TrimPrefix(all.Nginx, "nginx version: "))
	fmt.Fprintf(&b, "| Linux | connections | tracing | instructions per request | against untraced | %s |\n", strings.Join(columns, " | "))
	b.WriteString(strings.Repeat("|---", 5+len(columns)) + "|\n")
	untraced := map[string]counted{}
	for _, r := range all.Runs {
		of := fmt.Sprint(r.Release, r.Connections)
		if r.Tracing == "untraced" {
			untraced[of] = r
			fmt.Fprintf(&b, "| %s | %d | %s | %.0f | |%s\n", r.Release, r.Connections, r.Tracing, r.Instructions, strings.Repeat(" |", len(columns)))
			continue
		}
		base := untraced[of]
		fmt.Fprintf(&b, "| %s | %d | %s | %.0f | ×%.3f |", r.Release, r.Connections, r.Tracing, r.Instructions, r.Instructions/base.Instructions)
		for _, c := range columns {
			fmt.Fprintf(&b, " %+.0f |", r.Parts[c]-base.Parts[c])
		}
		b.WriteString("\n")
	}
	return replace(doc, "weight-exact", b.String())
}
