package runtime

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tare-trace/tare/agent/runtime/cpython"
	"github.com/tare-trace/tare/agent/runtime/greenlet"
	"github.com/tare-trace/tare/agent/runtime/jvm"
	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/bpf"
)

// taskPrograms is the kernel side's map of where tasks are read; bpf/task.bpf.h.
const taskPrograms = "task_programs"

// lookTask is a Runtime's Look that tells the kernel side where to read which task
// runs. Of what cannot be read the kernel side is told too, so that it takes threads
// for what they are, under its guard; where only a shim tells who works (alone), so that it
// links nothing without one.
func lookTask(read func(dir string, a *reading.Account, t *bpf.TaskProgram) error, alone bool) func(*Process, Maps) error {
	return func(p *Process, m Maps) error {
		t, err := readOf(p, func(a *reading.Account) (t bpf.TaskProgram, err error) {
			err = readShim(p.Dir, a, &t)
			if t.Shim.Table == 0 {
				err = errors.Join(err, read(p.Dir, a, &t))
			}
			return t, err
		})
		if limit := reading.Limit(""); errors.As(err, &limit) && tasksOf.knows(p) {
			return err
		}
		t.State = bpf.TaskRead
		if alone && t.Shim.Table == 0 {
			t.Shim.Needed = 1
		}
		tasksOf.tell(p)
		return errors.Join(err, m.Put(taskPrograms, uint32(p.PID), t))
	}
}

// tasksOf are the processes of which the kernel side was told: what is known of one stays
// where more than is read of it is to be read later.
var tasksOf toldOf

type toldOf struct {
	mu    sync.Mutex
	start map[int]uint64 // by process
}

func (t *toldOf) knows(p *Process) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	start, ok := t.start[p.PID]
	return ok && start == p.StartTime
}

func (t *toldOf) tell(p *Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == nil {
		t.start = map[int]uint64{}
	}
	t.start[p.PID] = p.StartTime
}

func (t *toldOf) forget(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.start, pid)
}

// lookForShim is a Runtime's LookForShim: what was read before stays, unless there is one.
func lookForShim(p *Process, m Maps) error {
	t, err := readOf(p, func(a *reading.Account) (t bpf.TaskProgram, err error) {
		return t, readShim(p.Dir, a, &t)
	})
	if err != nil || t.Shim.Table == 0 {
		return err
	}
	t.State = bpf.TaskRead
	return m.Put(taskPrograms, uint32(p.PID), t)
}

func detachTask(pid int, m Maps) error {
	tasksOf.forget(pid)
	return m.Delete(taskPrograms, uint32(pid))
}

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
func readNode(string, *reading.Account, *bpf.TaskProgram) error { return errNoShim }

func readJVM(dir string, a *reading.Account, t *bpf.TaskProgram) error {
	l, err := jvm.Read(dir, a)
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

func readPython(dir string, a *reading.Account, t *bpf.TaskProgram) error {
	return errors.Join(readGreenlets(dir, a, t), readCPython(dir, a, t))
}

func readGreenlets(dir string, a *reading.Account, t *bpf.TaskProgram) error {
	code, codeErr := native.CodePages(dir, a) // before the rest, so that what is loaded later differs
	l, err := greenlet.Read(dir, a)
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

func readCPython(dir string, a *reading.Account, t *bpf.TaskProgram) error {
	l, err := cpython.Read(dir, a)
	if err != nil {
		return err
	}
	p, at := &t.Python, &l.Attributes
	p.Previous, p.Owner, p.Code, p.Locals, p.Tag = l.Previous, l.Owner, l.Code, l.Locals, l.Tag
	p.Dict, p.Values, p.Valid, p.First, p.Capacity, p.Flag = at.Dict, at.Values, at.Valid, at.First, at.Capacity, at.Flag
	return setPath(&p.Frame.N, &p.Frame.At, l.State, l.Frame)
}

// isPython tells CPython's executables, and what embeds it (uwsgi, mod_wsgi).
func isPython(p *Process) bool {
	if strings.HasPrefix(p.Name(), "python") {
		return true
	}
	for _, library := range p.libraries() {
		if strings.HasPrefix(library, "libpython3.") {
			return true
		}
	}
	return false
}
