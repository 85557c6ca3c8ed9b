package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "nginx",
	Executables: []string{"nginx"},
	Linking:     config.Loop,
	Channels:    true, // between master and workers
	Why:         "event loop: what a receive causes is sent before the next receive",
})
