package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "Erlang",
	Executables: []string{"beam.smp"},
	Linking:     config.None,
	Why:         "Erlang: processes move between scheduler threads",
})
