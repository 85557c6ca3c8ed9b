// Package built builds Tare's agent for the tests of what is made of it, as packaging/build.sh does.
package built

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Agent is the path of one that everybody may run, linked statically. The module is Tare's directory.
func Agent(t *testing.T, module string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-built-") // t.TempDir is its owner's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // nobody runs it
		t.Fatal(err)
	}
	program := filepath.Join(dir, "tare-agent")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./cmd/tare-agent") //nolint:gosec // the test's own
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
