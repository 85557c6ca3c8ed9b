package runtime

import (
	"testing"

	"github.com/tare-trace/tare/agent/config"
)

// A runtime that does not exist, as CONTRIBUTING.md says to add one: this file
// is all there is of it.
var _ = register(Runtime{
	Name:        "Imaginary",
	Executables: []string{"imaginary"},
	Libraries:   []string{"libimaginary.so"},
	Linking:     config.Thread,
	Why:         "Imaginary: one request at a time",
	Attach: func(p *Process, m Maps) error {
		return m.Put("imaginary_offsets", uint32(p.PID), uint64(0x40))
	},
	Detach: func(pid int, m Maps) error { return m.Delete("imaginary_offsets", uint32(pid)) },
})

type fakeMaps map[string]map[any]any

func (m fakeMaps) Put(name string, key, value any) error {
	if m[name] == nil {
		m[name] = map[any]any{}
	}
	m[name][key] = value
	return nil
}

func (m fakeMaps) Delete(name string, key any) error {
	delete(m[name], key)
	return nil
}

func TestImaginaryRuntime(t *testing.T) {
	m := fakeMaps{}
	for _, p := range []*Process{process(t, "/opt/imaginary"), process(t, "/opt/app", "/lib/libimaginary.so")} {
		r := new(Detector).Detect(p)
		if r.Name != "Imaginary" || r.Linking != config.Thread {
			t.Fatalf("%s: %+v", p.Exe, r)
		}
		if err := r.Attach(p, m); err != nil || m["imaginary_offsets"][uint32(7)] != uint64(0x40) {
			t.Errorf("%v, %v", m, err)
		}
		if err := r.Detach(p.PID, m); err != nil || len(m["imaginary_offsets"]) > 0 {
			t.Errorf("%v, %v", m, err)
		}
	}
}
