package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "Envoy",
	Executables: []string{"envoy"},
	Linking:     config.None,
	Why:         "Envoy: HTTP/2 upstreams carry many requests at once",
})
