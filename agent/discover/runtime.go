package discover

import (
	"debug/buildinfo"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tare-trace/tare/agent/config"
)

// verdict is how a runtime's messages may be linked, and why.
type verdict struct {
	linking config.Linking
	why     string
}

// byName knows executables by their base name. A wrong parent is worse than
// none: only what is known to be right is linked.
var byName = map[string]verdict{
	"nginx":    {config.Loop, "event loop: what a receive causes is sent before the next receive"},
	"haproxy":  {config.Queue, "event loop: several requests are received before anything is sent for the first"},
	"node":     {config.None, "Node.js: one thread, continuations of many requests interleave"},
	"nodejs":   {config.None, "Node.js: one thread, continuations of many requests interleave"},
	"deno":     {config.None, "Deno: one thread, continuations of many requests interleave"},
	"bun":      {config.None, "Bun: one thread, continuations of many requests interleave"},
	"java":     {config.None, "Java: thread pools hand requests from thread to thread"},
	"dotnet":   {config.None, ".NET: tasks continue on any thread of the pool"},
	"beam.smp": {config.None, "Erlang: processes move between scheduler threads"},
	"envoy":    {config.None, "Envoy: HTTP/2 upstreams carry many requests at once"},
}

// byLibrary knows runtimes that run inside of executables of any name.
var byLibrary = map[string]verdict{
	"libjvm.so":     byName["java"],
	"libcoreclr.so": byName["dotnet"],
	"libnode.so":    byName["node"],
}

var (
	goVerdict = verdict{config.None, "Go: goroutines move between threads, and net/http sends from another goroutine"}
	notKnown  = verdict{config.Auto, "the kernel decides: thread for blocking accepted sockets, else none"}
)

// runtimeCache remembers which executables Go built: reading a large one takes
// milliseconds. It forgets what the last scan did not meet.
type runtimeCache struct {
	current, last map[exeID]bool
}

type exeID struct {
	dev, ino    uint64
	size, mtime int64
}

func (c *runtimeCache) begin() { c.last, c.current = c.current, map[exeID]bool{} }
func (c *runtimeCache) end()   { c.last = nil }

func (c *runtimeCache) linking(p *process) (config.Linking, string) {
	v, ok := byName[path.Base(p.exe)]
	if !ok && c.isGo(filepath.Join(p.dir, "exe")) {
		v, ok = goVerdict, true
	}
	if !ok {
		v, ok = libraryVerdict(filepath.Join(p.dir, "maps"))
	}
	if !ok {
		v = notKnown
	}
	return v.linking, v.why
}

func (c *runtimeCache) isGo(exe string) bool {
	info, err := os.Stat(exe)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	id := exeID{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano()}
	for _, known := range []map[exeID]bool{c.current, c.last} {
		if is, ok := known[id]; ok {
			c.remember(id, is)
			return is
		}
	}
	_, err = buildinfo.ReadFile(exe)
	c.remember(id, err == nil)
	return err == nil
}

// maxExecutables bounds the cache between two scans, when only Inspect adds.
const maxExecutables = 4096

func (c *runtimeCache) remember(id exeID, isGo bool) {
	if c.current == nil || len(c.current) >= maxExecutables {
		c.current = map[exeID]bool{}
	}
	c.current[id] = isGo
}

// libraryVerdict looks at what the process has mapped. Right after exec the
// libraries are not there yet; the next scan finds them.
func libraryVerdict(maps string) (verdict, bool) {
	text, err := os.ReadFile(maps)
	if err != nil {
		return verdict{}, false
	}
	for line := range strings.Lines(string(text)) {
		if slash := strings.LastIndexByte(line, '/'); slash >= 0 {
			if v, ok := byLibrary[strings.TrimSuffix(line[slash+1:], "\n")]; ok {
				return v, true
			}
		}
	}
	return verdict{}, false
}
