package collector

import (
	"runtime/debug"
	"sync"
)

var linked = sync.OnceValue(func() map[string]string {
	versions := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	versions[info.Main.Path] = info.Main.Version
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = &debug.Module{Path: m.Path, Version: m.Replace.Version}
		}
		versions[m.Path] = m.Version
	}
	return versions
})

// version is the version of a linked module, "(devel)" if the build does not say.
func version(module string) string {
	if v := linked()[module]; v != "" {
		return v
	}
	return "(devel)"
}
