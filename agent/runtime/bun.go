package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "Bun",
	Executables: []string{"bun"},
	Linking:     config.None,
	Why:         "Bun: one thread, continuations of many requests interleave",
})
