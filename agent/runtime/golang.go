package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:    "Go",
	Detect:  func(p *Process) bool { return p.GoVersion() != "" },
	Linking: config.None,
	Why:     "Go: goroutines move between threads, and net/http sends from another goroutine",
})
