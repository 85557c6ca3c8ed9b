package kernel

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/cilium/ebpf"

	"github.com/tare-trace/tare/bpf"
)

// Put writes into a map by the name that it has in bpf/, for what only those
// who fill it know: offsets and recipes of a runtime.
func (t *Tracer) Put(name string, key, value any) error {
	m, err := t.byName(name)
	if err == nil {
		err = m.Put(key, value)
	}
	if err != nil {
		return fmt.Errorf("write to map %s: %w", name, err)
	}
	return nil
}

// Delete removes a key from a map by its name; it may be gone already.
func (t *Tracer) Delete(name string, key any) error {
	m, err := t.byName(name)
	if err != nil {
		return err
	}
	return remove(m, key)
}

func (t *Tracer) byName(name string) (*ebpf.Map, error) {
	maps := reflect.ValueOf(&t.objs.TareMaps).Elem()
	for i := range maps.NumField() {
		if m, ok := maps.Field(i).Interface().(*ebpf.Map); ok && maps.Type().Field(i).Tag.Get("ebpf") == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("the kernel side has no map %s", name)
}

// remove deletes a key, which may be gone already.
func remove(m *ebpf.Map, key any) error {
	if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete %v from %v: %w", key, m, err)
	}
	return nil
}

// entries copies a map whose entries come and go meanwhile.
func entries[K comparable, V any](m *ebpf.Map) (map[K]V, error) {
	found := map[K]V{}
	var key K
	var value V
	each := m.Iterate()
	for each.Next(&key, &value) {
		found[key] = value
	}
	if err := each.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("read %v: %w", m, err)
	}
	return found, each.Err()
}

// Processes are the traced processes, those included that a fork has added. An
// error says that some may be missing.
func (t *Tracer) Processes() (map[uint32]bpf.Service, error) {
	return entries[uint32, bpf.Service](t.objs.Processes)
}

// RemoveListener forgets that a traced service listens on a port.
func (t *Tracer) RemoveListener(k bpf.PortKey) error { return remove(t.objs.Listeners, k) }
