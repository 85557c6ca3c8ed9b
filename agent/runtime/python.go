package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:    "Python",
	Detect:  isPython,
	Linking: config.Task,
	Why:     "Python: greenlets and asyncio's tasks are read from its memory; threads as auto",
	Look:    lookTask(readPython, false),
	Detach:  detachTask,
})
