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
	used := map[string]bool{Claim: true}
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
	for _, p := range IP {
		if used[p.Name] = true; spec.Programs[p.Name] == nil {
			t.Errorf("the object has no program %s", p.Name)
		}
	}
	for name := range spec.Programs {
		if !used[name] {
			t.Errorf("neither a tier nor an option has %s", name)
		}
	}
}

// Every program has a hook with a name, and all that doctor tells of it.
func TestTable(t *testing.T) {
	for _, tier := range All {
		for _, p := range tier.Programs {
			if p.For == "" || (p.Capability == "") != (p.Without == "") {
				t.Errorf("%s: not all is told of %s", tier.Name, p.Name)
			}
			if kinds[Hook{Type: p.Hook.Type, Attach: p.Hook.Attach}] == "" {
				t.Errorf("%s: %s has no hook with a name: %v", tier.Name, p.Name, p.Hook)
			}
		}
	}
	for want, h := range map[string]Hook{
		"tp_btf/a":           Tracepoint("a"),
		"fentry/a":           Fentry("a"),
		"kprobe/a":           Kprobe("a"),
		"tracepoint/a/b":     {ebpf.TracePoint, ebpf.AttachNone, "a/b"},
		"iter/tcp":           IterTCP,
		"sock_ops":           SockOps,
		"cgroup_skb/ingress": {ebpf.CGroupSKB, ebpf.AttachCGroupInetIngress, ""},
	} {
		if got := h.String(); got != want {
			t.Errorf("%s is called %s", want, got)
		}
	}
}

func TestCandidates(t *testing.T) {
	all := All
	t.Cleanup(func() { All = all })
	All = []Tier{{Name: "new"}, {Name: "compared", ByName: true}, {Name: "old"}}
	for name, want := range map[string][]string{"": {"new", "old"}, "old": {"old"}, "compared": {"compared"}} {
		list, err := Candidates(name)
		var got []string
		for _, tier := range list {
			got = append(got, tier.Name)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := Candidates("none"); err == nil || !strings.Contains(err.Error(), "compared") {
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
		t.Fatalf("%s tells of another table than this one: go test ./agent/tier -update", docs)
	}
	if err := os.WriteFile(docs, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// markdown has a row for everything that hooks are for, and a column for every tier.
func markdown() string {
	var b strings.Builder
	b.WriteString("| for |")
	for _, tier := range All {
		fmt.Fprintf(&b, " `%s`", tier.Name)
		if tier.ByName {
			b.WriteString(", only by name")
		}
		b.WriteString(" |")
	}
	b.WriteString(" lost where it is refused |\n" + strings.Repeat("|---", 2+len(All)) + "|\n")
	done := map[string]bool{}
	for _, tier := range All {
		for _, p := range tier.Programs {
			if done[p.For] {
				continue
			}
			done[p.For] = true
			fmt.Fprintf(&b, "| %s |", p.For)
			for _, other := range All {
				for _, q := range other.Programs {
					if q.For == p.For {
						fmt.Fprintf(&b, " `%s` at `%v`", q.Name, q.Hook)
						if len(q.Also) > 0 {
							fmt.Fprintf(&b, ", %s", "`"+strings.Join(q.Also, "`, `")+"`")
						}
					}
				}
				b.WriteString(" |")
			}
			lost := "the tier"
			if p.Capability != "" {
				lost = fmt.Sprintf("`%s`: %s", p.Capability, p.Without)
			}
			fmt.Fprintf(&b, " %s |\n", lost)
		}
	}
	return b.String()
}
