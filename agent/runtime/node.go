package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "Node.js",
	Executables: []string{"node", "nodejs"},
	Libraries:   []string{"libnode.so"},
	Linking:     config.Task,
	Why:         "Node.js: one thread, whose continuations a shim in the process tells apart, if there is one",
	Look:        lookTask(readNode, true),
	Detach:      detachTask,
})
