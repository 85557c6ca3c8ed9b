package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "Deno",
	Executables: []string{"deno"},
	Linking:     config.None,
	Why:         "Deno: one thread, continuations of many requests interleave",
})
