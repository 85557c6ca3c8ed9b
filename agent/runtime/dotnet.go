package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        ".NET",
	Executables: []string{"dotnet"},
	Libraries:   []string{"libcoreclr.so"},
	Linking:     config.None,
	Why:         ".NET: tasks continue on any thread of the pool",
})
