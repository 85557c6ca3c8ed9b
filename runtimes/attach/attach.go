// Package attach loads a shim into a process that runs, where its runtime has a way to do that: the JVM has. It does not
// change a process in any other way (ptrace, written memory); of runtimes without a way, it says how to load the shim at start.
package attach

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// AtStartError says that a runtime takes a shim only when the process starts, and how.
type AtStartError struct {
	Runtime string
	How     string
}

func (e *AtStartError) Error() string {
	return fmt.Sprintf("%s takes the shim only when it starts: %s", e.Runtime, e.How)
}

// Process loads the shim into a process, by its pid as this process sees it. For the JVM, jar is the file of tare-java.jar.
func Process(ctx context.Context, pid int, jar string) error {
	exe, err := os.Readlink(procfs(pid, "exe"))
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	maps, err := os.ReadFile(procfs(pid, "maps"))
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if hasTable(maps) {
		return nil
	}
	name := filepath.Base(exe)
	switch {
	case bytes.Contains(maps, []byte("/libjvm.so")):
		return Java(ctx, pid, jar, "")
	case name == "node" || bytes.Contains(maps, []byte("/libnode.so")):
		return &AtStartError{"Node.js", "NODE_OPTIONS=--require=/path/to/runtimes/node/tare.js"}
	case strings.HasPrefix(name, "python") || bytes.Contains(maps, []byte("/libpython3")):
		return &AtStartError{"Python", "pip install runtimes/python into its environment, and start it again"}
	}
	return fmt.Errorf("process %d (%s): there is no shim for it", pid, name)
}

// hasTable tells whether a shim runs, by the names of its mapping in runtimes/PROTOCOL.md. Node's has none.
func hasTable(maps []byte) bool {
	for line := range bytes.Lines(maps) {
		fields := bytes.Fields(line)
		if len(fields) < 6 {
			continue
		}
		base := strings.TrimPrefix(filepath.Base(string(fields[5])), "memfd:")
		if strings.HasPrefix(base, "tare-threads") {
			return true
		}
	}
	return false
}

func procfs(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
