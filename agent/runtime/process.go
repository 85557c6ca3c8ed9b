package runtime

import (
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

// Process is what a runtime may ask of a process.
type Process struct {
	PID       int
	StartTime uint64 // with PID, unique until reboot
	Exe       string // path as the process sees it
	Dir       string // its directory in the proc file system
	Group     string // its container, or control group, in whose name it is read

	detector *Detector
	version  string           // of Go, once it was detected
	account  *reading.Account // while it is detected
	mapped   *[]string        // base names of files, likewise
}

// Name is the base name of its executable.
func (p *Process) Name() string { return path.Base(p.Exe) }

// GoVersion is the version of Go that built its executable, "" for another
// compiler's, or if that could not be read, or the process was not detected.
func (p *Process) GoVersion() string { return p.version }

// maxLibraries bounds the names of a process's files, in bytes.
const maxLibraries = 512 << 10

// libraries are the base names of the files that it has mapped, in the order of
// their addresses. Right after exec the libraries are not there yet.
func (p *Process) libraries() []string {
	if p.mapped != nil {
		return *p.mapped
	}
	p.mapped = new([]string)
	left := maxLibraries
	err := native.Libraries(p.Dir, p.account, func(name string) bool {
		if left -= len(name) + int(unsafe.Sizeof(name)); left < 0 {
			p.account.Exceed()
			return false
		}
		*p.mapped = append(*p.mapped, name)
		return true
	})
	if err != nil {
		*p.mapped = nil // it has ended, or what is there cannot be read
	}
	return *p.mapped
}

// readOf reads a process, as its account allows.
func readOf[T any](p *Process, f func(*reading.Account) (T, error)) (T, error) {
	if p.account != nil { // it is its turn
		return f(p.account)
	}
	return reading.Do(reading.ID{PID: p.PID, StartTime: p.StartTime}, p.Group, f)
}

// A process may load libraries when it is up, long after exec: it is looked at
// anew until it is young no more, and then once in a while.
const (
	young = 30 * time.Second
	again = time.Minute
)

// Detector finds the runtimes of processes, and remembers what is costly to
// know: reading a large executable takes milliseconds, and the list of what a
// process has mapped a tenth of one. Next and Detect are for one goroutine at a
// time; a Process may be asked by others meanwhile.
type Detector struct {
	goVersions generations[executable, string]
	runtimes   generations[identity, *detected]
}

type identity struct {
	pid   int
	start uint64
	exe   string
}

type detected struct {
	runtime *Runtime
	version string    // of Go
	first   time.Time // when the process was first seen
	looked  time.Time
}

// Next says that all processes are about to be detected again. What was not
// asked for between two calls is forgotten.
func (d *Detector) Next() {
	d.goVersions.next()
	d.runtimes.next()
}

// Detect finds the runtime of a process; it is never nil.
func (d *Detector) Detect(p *Process) *Runtime {
	p.detector = d
	id, now := identity{p.PID, p.StartTime, p.Exe}, time.Now()
	k, ok := d.runtimes.get(id)
	if !ok {
		k = &detected{first: now}
		d.runtimes.put(id, k)
	}
	if k.runtime == nil || now.Sub(k.first) < young || now.Sub(k.looked) >= again {
		k.detect(p)
		k.looked = now
	}
	p.version = k.version
	return k.runtime
}

// detect finds the runtime of a process. What was known stays where it cannot be read now.
func (k *detected) detect(p *Process) {
	if r, ok := byName[p.Name()]; ok && r.Check == nil {
		k.runtime = r
		return
	}
	q := *p // which alone the reading changes: it may be waited for no more
	found, err := readOf(p, func(a *reading.Account) (found detected, err error) {
		q.account = a
		found.runtime = detect(&q)
		found.version = q.version
		return found, nil
	})
	switch {
	case err == nil:
		k.runtime, k.version = found.runtime, found.version
	case k.runtime == nil:
		k.runtime = unknown.refused(err)
	}
}

// executable identifies a file's content.
type executable struct {
	dev, ino    uint64
	size, mtime int64
}

// isGo reports whether a process runs an executable that Go built, and notes the version.
func isGo(p *Process) bool {
	f, err := reading.Open(filepath.Join(p.Dir, "exe"))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	id := executable{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano()}
	if p.version, ok = p.detector.goVersions.get(id); !ok {
		p.version = goVersion(p.account.Of(f))
		if p.account.Err() == nil {
			p.detector.goVersions.put(id, p.version)
		}
	}
	return p.version != ""
}

// generations is a map that forgets what was not asked for between two calls of
// next, and all when it has grown too large without one.
type generations[K comparable, V any] struct {
	mu            sync.Mutex
	current, last map[K]V
}

const maxRemembered = 32768 // processes, or executables

func (g *generations[K, V]) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.current = g.current, map[K]V{}
}

func (g *generations[K, V]) get(k K) (V, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.current[k]
	if !ok {
		if v, ok = g.last[k]; ok {
			g.keep(k, v)
		}
	}
	return v, ok
}

func (g *generations[K, V]) put(k K, v V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keep(k, v)
}

func (g *generations[K, V]) keep(k K, v V) {
	if g.current == nil || len(g.current) >= maxRemembered {
		g.current = map[K]V{}
	}
	g.current[k] = v
}
