package runtime

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tare-trace/tare/agent/runtime/cpython"
	"github.com/tare-trace/tare/agent/runtime/greenlet"
	"github.com/tare-trace/tare/agent/runtime/jvm"
	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/bpf"
)

// taskPrograms is the kernel side's map of where tasks are read; bpf/task.bpf.h.
const taskPrograms = "task_programs"

// lookTask is a Runtime's Look that tells the kernel side where to read which task
// runs. Of what cannot be read the kernel side is told too, so that it takes threads
// for what they are, under its guard.
func lookTask(read func(dir string, t *bpf.TaskProgram) error) func(*Process, Maps) error {
	return func(p *Process, m Maps) error {
		t := bpf.TaskProgram{State: bpf.TaskRead}
		err := readShim(p.Dir, &t)
		if t.Shim.Table == 0 {
			err = errors.Join(err, read(p.Dir, &t))
		}
		return errors.Join(err, m.Put(taskPrograms, uint32(p.PID), t))
	}
}

// lookForShim is a Runtime's LookForShim: what was read before stays, unless there is one.
func lookForShim(p *Process, m Maps) error {
	t := bpf.TaskProgram{State: bpf.TaskRead}
	if err := readShim(p.Dir, &t); err != nil || t.Shim.Table == 0 {
		return err
	}
	return m.Put(taskPrograms, uint32(p.PID), t)
}

func detachTask(pid int, m Maps) error { return m.Delete(taskPrograms, uint32(pid)) }

func setPath(n *uint32, at *[bpf.TaskPath]int32, paths ...native.Path) error {
	for _, p := range paths {
		if int(*n)+len(p) > len(at) {
			*n = 0
			return fmt.Errorf("a path of more than %d loads", len(at))
		}
		*n += uint32(copy(at[*n:], p)) //nolint:gosec // a few
	}
	return nil
}

// readNode is for a runtime of which only a shim tells who works.
func readNode(_ string, t *bpf.TaskProgram) error {
	t.Shim.Needed = 1
	return errNoShim
}

func readJVM(dir string, t *bpf.TaskProgram) error {
	l, err := jvm.Read(dir)
	if err != nil || l.Identity == jvm.NoVirtualThreads {
		return err
	}
	j := &t.Java
	if l.Identity == jvm.ByHandle {
		h := &l.Handle
		j.Handles, j.VirtualThread, j.ThreadObject, j.Id, j.Active, j.Collections = 1, h.VThread, h.ThreadObj, h.TID, h.Active, h.Collections
	} else {
		j.Entry, j.Owner = l.Entry, l.OwnerID
	}
	return setPath(&j.Thread.N, &j.Thread.At, l.Thread)
}

func readPython(dir string, t *bpf.TaskProgram) error {
	return errors.Join(readGreenlets(dir, t), readCPython(dir, t))
}

func readGreenlets(dir string, t *bpf.TaskProgram) error {
	code, codeErr := native.CodePages(dir) // before: what is loaded meanwhile must show
	l, err := greenlet.Read(dir)
	if errors.Is(err, greenlet.ErrAbsent) {
		t.Code = code
		return codeErr
	}
	if err != nil {
		return err
	}
	t.Greenlet.Main, t.Greenlet.Current, t.Greenlet.Type = l.Main, l.Current, l.Type
	return setPath(&t.Greenlet.State.N, &t.Greenlet.State.At, l.State)
}

func readCPython(dir string, t *bpf.TaskProgram) error {
	l, err := cpython.Read(dir)
	if err != nil {
		return err
	}
	p, a := &t.Python, &l.Attributes
	p.Previous, p.Owner, p.Code, p.Locals, p.Tag = l.Previous, l.Owner, l.Code, l.Locals, l.Tag
	p.Dict, p.Values, p.Valid, p.First, p.Capacity, p.Flag = a.Dict, a.Values, a.Valid, a.First, a.Capacity, a.Flag
	return setPath(&p.Frame.N, &p.Frame.At, l.State, l.Frame)
}

// isPython tells CPython's executables, and what embeds it (uwsgi, mod_wsgi).
func isPython(p *Process) bool {
	if strings.HasPrefix(p.Name(), "python") {
		return true
	}
	for library := range p.Libraries() {
		if strings.HasPrefix(library, "libpython3.") {
			return true
		}
	}
	return false
}
