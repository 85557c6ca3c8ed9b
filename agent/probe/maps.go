package probe

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// maps are created when a probe first needs them, and closed together.
type maps struct {
	byType map[ebpf.MapType]*ebpf.Map
}

func newMaps() *maps { return &maps{byType: map[ebpf.MapType]*ebpf.Map{}} }

func (m *maps) get(kind ebpf.MapType) (*ebpf.Map, error) {
	if have := m.byType[kind]; have != nil {
		return have, nil
	}
	number := func(size uint32) *btf.Int { return &btf.Int{Name: "number", Size: size} }
	spec := &ebpf.MapSpec{Name: "tare_probe", Type: kind}
	switch kind {
	case ebpf.SkStorage, ebpf.TaskStorage:
		spec.KeySize, spec.ValueSize = 4, 8
		spec.Key, spec.Value = number(4), number(8)
		spec.Flags = bpfNoPrealloc
	case ebpf.RingBuf:
		spec.MaxEntries = 1 << 16 // a multiple of every page size
	case ebpf.LPMTrie:
		spec.KeySize, spec.ValueSize, spec.MaxEntries = 20, 1, 1
		spec.Flags = bpfNoPrealloc
	default:
		spec.KeySize, spec.ValueSize, spec.MaxEntries = 4, 8, 1
	}
	created, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, err
	}
	m.byType[kind] = created
	return created, nil
}

func (m *maps) try(kind ebpf.MapType) error {
	_, err := m.get(kind)
	return err
}

func (m *maps) close() {
	for _, created := range m.byType {
		_ = created.Close() // nothing was written that could be lost
	}
}

const bpfNoPrealloc = 1 // BPF_F_NO_PREALLOC
