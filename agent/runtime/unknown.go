package runtime

import "github.com/tare-trace/tare/agent/config"

// unknown is what no runtime recognises: threaded servers and pre-forked
// workers in any language among others.
var unknown = &Runtime{
	Name:    "unknown",
	Linking: config.Auto,
	Why:     "the kernel decides: as threads, until something speaks against it",
}
