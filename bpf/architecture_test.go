package bpf

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// The same C is compiled for both architectures: the same programs at the same
// hooks, maps and variables of the same names, types and sizes.
func TestArchitecturesAgree(t *testing.T) {
	for _, object := range []string{"tare", "claim"} {
		var sides [2]map[string]string
		for i, arch := range []string{"x86", "arm64"} {
			spec, err := ebpf.LoadCollectionSpec(object + "_" + arch + "_bpfel.o")
			if err != nil {
				t.Fatal(err)
			}
			sides[i] = describe(spec)
		}
		if len(sides[0]) == 0 {
			t.Fatal("nothing to compare")
		}
		names := slices.Collect(maps.Keys(sides[0]))
		names = slices.AppendSeq(names, maps.Keys(sides[1]))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if x86, arm64 := sides[0][name], sides[1][name]; x86 != arm64 {
				t.Errorf("%s, %s: %q for x86, %q for arm64", object, name, x86, arm64)
			}
		}
	}
}

// describe tells all that must agree, by kind and name.
func describe(spec *ebpf.CollectionSpec) map[string]string {
	all := map[string]string{}
	for name, p := range spec.Programs {
		all["program "+name] = fmt.Sprintf("%v %v %s %s %s", p.Type, p.AttachType, p.AttachTo, p.SectionName, p.License)
	}
	for name, m := range spec.Maps {
		m = m.Copy()
		for i, kv := range m.Contents { // data sections hold strings, and pointers of no size
			if raw, ok := kv.Value.([]byte); ok {
				m.Contents[i].Value = len(raw)
			}
		}
		all["map "+name] = fmt.Sprintf("%v %d %d %d %d %v %v %9v %9v", m.Type, m.KeySize, m.ValueSize, m.MaxEntries, m.Flags, m.Pinning, m.Contents, m.Key, m.Value)
	}
	for name, v := range spec.Variables {
		all["variable "+name] = fmt.Sprintf("%s+%d %d bytes %9v %x", v.SectionName, v.Offset, v.Size(), v.Type.Type, v.Value)
	}
	return all
}

// Constants that Go repeats are those of the object.
func TestConstants(t *testing.T) {
	spec, err := LoadTare()
	if err != nil {
		t.Fatal(err)
	}
	if n := spec.Maps[TareMapServices].MaxEntries; n != Services {
		t.Errorf("room for %d services in C, %d in Go", n, Services)
	}
	first, traced := uint8(TareDataFlagsTARE_D_FIRST), uint8(TareDataFlagsTARE_D_PEER_TRACED)
	if (first|traced)>>UnlinkedShift != 0 || int(TareUnlinkedTARE_UNLINKED_MAX) > 1<<(8-UnlinkedShift) {
		t.Errorf("flags of a data record and the reasons behind them overlap, or do not fit into 8 bits")
	}
}
