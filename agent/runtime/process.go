package runtime

import (
	"debug/buildinfo"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is what a runtime may ask of a process.
type Process struct {
	PID       int
	StartTime uint64 // with PID, unique until reboot
	Exe       string // path as the process sees it
	Dir       string // its directory in the proc file system

	detector *Detector
}

// Name is the base name of its executable.
func (p *Process) Name() string { return path.Base(p.Exe) }

// GoVersion is the version of Go that built its executable, "" for another
// compiler's.
func (p *Process) GoVersion() string { return p.detector.goVersion(filepath.Join(p.Dir, "exe")) }

// Libraries are the base names of the files that it has mapped, in the order of
// their addresses, each as often as it is mapped. Right after exec the libraries
// are not there yet.
func (p *Process) Libraries() iter.Seq[string] {
	return func(yield func(string) bool) {
		text, err := os.ReadFile(filepath.Join(p.Dir, "maps"))
		if err != nil {
			return
		}
		for line := range strings.Lines(string(text)) {
			if slash := strings.LastIndexByte(line, '/'); slash >= 0 && !yield(strings.TrimSuffix(line[slash+1:], "\n")) {
				return
			}
		}
	}
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
		k.runtime, k.looked = detect(p), now
	}
	return k.runtime
}

// executable identifies a file's content.
type executable struct {
	dev, ino    uint64
	size, mtime int64
}

func (d *Detector) goVersion(exe string) string {
	info, err := os.Stat(exe)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	id := executable{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano()}
	version, ok := d.goVersions.get(id)
	if !ok {
		if info, err := buildinfo.ReadFile(exe); err == nil {
			version = info.GoVersion
		}
		d.goVersions.put(id, version)
	}
	return version
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
