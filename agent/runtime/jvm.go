package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "JVM",
	Executables: []string{"java"},
	Libraries:   []string{"libjvm.so"},
	Linking:     config.Task,
	Why:         "Java: virtual threads are read from the JVM's memory; platform threads as auto",
	Look:        lookTask(readJVM, false),
	LookForShim: lookForShim,
	Detach:      detachTask,
})
