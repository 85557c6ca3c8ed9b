package runtime

import "github.com/tare-trace/tare/agent/config"

var _ = register(Runtime{
	Name:        "haproxy",
	Executables: []string{"haproxy"},
	Linking:     config.Queue,
	Why:         "event loop: several requests are received before anything is sent for the first",
})
