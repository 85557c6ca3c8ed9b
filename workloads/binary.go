package workloads

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// serviceBinary finds one of our own services: in dir, if it is given;
// otherwise beside the running executable, then in PATH.
func serviceBinary(name, dir string) (string, error) {
	if dir != "" {
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("%s is not in %s: %w", name, dir, err)
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not built: run `make build`, or put it beside tare", name)
	}
	return filepath.Abs(path)
}
