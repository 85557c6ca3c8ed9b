package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "JVM",
	Executables: []string{"java"},
	Libraries:   []string{"libjvm.so"},
	Linking:     config.None,
	Why:         "Java: thread pools hand requests from thread to thread",
})
