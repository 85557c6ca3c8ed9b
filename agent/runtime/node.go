package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "Node.js",
	Executables: []string{"node", "nodejs"},
	Libraries:   []string{"libnode.so"},
	Linking:     config.None,
	Why:         "Node.js: one thread, continuations of many requests interleave",
})
