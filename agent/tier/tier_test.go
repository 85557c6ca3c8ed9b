package tier

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/tare-trace/tare/bpf"
)

var update = flag.Bool("update", false, "write the table in docs/doctor.md anew")

// Every program of the object is in the table, and the reverse.
func TestProgramsAreTheObjects(t *testing.T) {
	spec, err := bpf.LoadTare()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, tier := range All {
		here := map[string]bool{}
		for _, p := range tier.Programs {
			if spec.Programs[p.Name] == nil {
				t.Errorf("%s: the object has no program %s", tier.Name, p.Name)
			}
			if here[p.Name] {
				t.Errorf("%s: %s is there twice", tier.Name, p.Name)
			}
			here[p.Name], used[p.Name] = true, true
		}
		for _, name := range tier.Switches {
			if v := spec.Variables[name]; v == nil || !v.Constant() || v.Size() != 1 {
				t.Errorf("%s: the object has no switch %s", tier.Name, name)
			}
		}
	}
	for name := range spec.Programs {
		if !used[name] {
			t.Errorf("no tier has %s", name)
		}
	}
}

// Every feature that a tier names is in the table, with all that doctor tells of it.
func TestFeatures(t *testing.T) {
	known := map[string]bool{}
	for _, f := range Features() {
		if f.Name == "" || f.Needed == "" || f.Without == "" {
			t.Errorf("not all is told of a feature: %+v", f)
		}
		if known[f.Name] {
			t.Errorf("%s is there twice: does a tier use now what none did?", f.Name)
		}
		known[f.Name] = true
	}
	for i := range All {
		tier := &All[i]
		named := tier.Requires()
		for _, p := range tier.Programs {
			named = append(named, p.Features()...)
			if p.Capability != "" && p.Without == "" {
				t.Errorf("%s: what is lost without %s?", tier.Name, p.Name)
			}
			if p.Hook.Type == ebpf.UnspecifiedProgram || prefixes[p.Hook.Attach] == "" {
				t.Errorf("%s: %s has no hook with a name: %v", tier.Name, p.Name, p.Hook)
			}
		}
		for _, name := range named {
			if !known[name] {
				t.Errorf("%s: nobody tells what %s is for", tier.Name, name)
			}
		}
	}
}

func TestFind(t *testing.T) {
	for _, name := range append(Names(), "") {
		if tier, err := Find(name); err != nil || tier.Name != name && name != "" {
			t.Errorf("%q: %v, %v", name, tier, err)
		}
	}
	if _, err := Find("none"); err == nil || !strings.Contains(err.Error(), All[0].Name) {
		t.Error(err)
	}
}

const (
	docs       = "../../docs/doctor.md"
	tableBegin = "<!-- written by: go test ./agent/tier -update -->\n"
	tableEnd   = "<!-- end -->\n"
)

// The documentation's table is this one.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(text, []byte(tableBegin))
	_, tail, closed := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := slices.Concat(head, []byte(tableBegin+markdown()+tableEnd), tail)
	if bytes.Equal(text, want) {
		return
	}
	if !*update {
		t.Fatalf("%s tells of other features than the table: go test ./agent/tier -update", docs)
	}
	if err := os.WriteFile(docs, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// markdown has a row for every feature and a column for every tier.
func markdown() string {
	var b strings.Builder
	b.WriteString("| feature | needed for | without it |")
	for _, name := range Names() {
		fmt.Fprintf(&b, " `%s` |", name)
	}
	b.WriteString("\n" + strings.Repeat("|---", 3+len(All)) + "|\n")
	for _, f := range Features() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |", f.Name, f.Needed, f.Without)
		for i := range All {
			fmt.Fprintf(&b, " %s |", All[i].role(f.Name))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// role tells what a feature is to a tier: needed, or the capability lost without it.
func (t *Tier) role(feature string) string {
	if slices.Contains(t.Requires(), feature) {
		return "needed"
	}
	for _, p := range t.Programs {
		if slices.Contains(p.Features(), feature) {
			return "`" + p.Capability + "`"
		}
	}
	return ""
}
