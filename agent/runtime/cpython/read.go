package cpython

import (
	"errors"
	"fmt"
	"time"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

const (
	maxThreads = 64 // that are looked at
	maxFrames  = 64
	// A busy process changes what is read: under load, most tries fail. A process
	// that cannot be read counts as one without tasks, whose loop is then refused.
	tries = 32
	pause = time.Millisecond
)

// Read reads the interpreter of a process, whose directory in the proc file
// system is given.
func Read(dir string, a *reading.Account) (*Layout, error) {
	p, err := native.Open(dir, a)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	module, err := p.Library("libpython3.[0-9]*.so*")
	if err != nil || module.Address("_PyRuntime") == 0 {
		if module, err = p.Executable(); err != nil {
			return nil, err
		}
	}
	libc, err := p.LibC()
	if err != nil {
		return nil, err
	}
	l, err := read(p.Memory, libc, module.Address)
	if err != nil || l.Minor < 14 {
		return l, err
	}
	if asyncio, err := p.Library("_asyncio.*.so"); err == nil {
		l.Task = task(p.Memory, asyncio)
	} else { // it may be built in
		l.Task = task(p.Memory, module)
	}
	return l, nil
}

// task reads the section that _asyncio has for debuggers (_asynciomodule.c): three
// groups, each beginning with its size.
func task(m *native.Memory, module *native.Module) int32 {
	const (
		size   = 104
		state  = 72 // the thread state's group: size, running loop, running task
		fields = 1 << 14
	)
	addr, n := module.Section(".AsyncioDebug")
	if addr == 0 || n < size {
		return 0
	}
	if at := m.Word(addr + state + 16); at < m.Word(addr+state) && at < fields {
		return int32(at)
	}
	return 0
}

// read reads an interpreter; address gives an exported variable's, 0 if there is none.
func read(m *native.Memory, libc *native.LibC, address func(name string) uint64) (*Layout, error) {
	runtime, code := address("_PyRuntime"), address("PyCode_Type")
	if runtime == 0 || code == 0 {
		return nil, errors.New("no _PyRuntime in libpython or the executable")
	}
	version := m.Word(address("Py_Version")) // PY_VERSION_HEX: 0x030b02f0 is 3.11.2
	major, minor := version>>24, int(version>>16&0xff)
	if major == 0 {
		return nil, errors.New("before 3.11: frames are not known")
	}
	if major != 3 || minor < 11 || minor > 14 {
		return nil, fmt.Errorf("version %d.%d is not known", major, minor)
	}
	o, ok := tables[minor]
	var err error
	if !ok {
		if o, err = debugOffsets(m, runtime, minor); err != nil {
			return nil, err
		}
	}
	l := o.Layout
	l.Minor = minor
	for try := range tries {
		if try > 0 {
			time.Sleep(pause)
		}
		m.Forget()
		var owners []native.Owner
		if owners, err = o.owners(m, runtime); err == nil {
			l.State, err = libc.KeyPath(m, owners)
		}
		if err == nil {
			err = l.check(m, owners, code)
		}
		if err == nil {
			return &l, nil
		}
	}
	return nil, err
}

// owners are the threads of the only interpreter.
func (o *offsets) owners(m *native.Memory, runtime uint64) ([]native.Owner, error) {
	interpreter := m.Word(runtime + o.interpreters)
	if interpreter == 0 {
		return nil, errors.New("no interpreter yet")
	}
	if m.Word(interpreter+o.nextInterpreter) != 0 {
		return nil, errors.New("several interpreters")
	}
	var owners []native.Owner
	for t := m.Word(interpreter + o.threads); t != 0 && len(owners) < maxThreads; t = m.Word(t + o.next) {
		if m.Word(t+o.interp) != interpreter {
			return nil, errors.New("thread states have an unknown shape")
		}
		owners = append(owners, native.Owner{Thread: m.Word(t + o.id), TID: uint32(m.Word(t + o.kernel)), Value: t})
	}
	return owners, nil
}

// check walks the frames of all threads: each but those of C has a code object,
// and one is found.
func (l *Layout) check(m *native.Memory, owners []native.Owner, code uint64) error {
	found := false
	for _, t := range owners {
		frame := l.Frame.Follow(m, t.Value)
		for range maxFrames {
			if frame == 0 {
				break
			}
			if m.Byte(frame+uint64(l.Owner)) <= Generator {
				if m.Word(m.Word(frame+uint64(l.Code))&^l.Tag+ObjectType) != code {
					return errors.New("frames have an unknown shape")
				}
				found = true
			}
			frame = m.Word(frame + uint64(l.Previous))
		}
	}
	if !found {
		return errors.New("no thread runs Python yet")
	}
	return nil
}
