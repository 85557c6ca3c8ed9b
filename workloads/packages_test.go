package workloads

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of two programs that do the same, the preferred one is taken where it is.
func TestPreferred(t *testing.T) {
	defer func(dirs []string) { sbin = dirs }(sbin)
	sbin = nil
	r := Requirement{Executable: "redis-server", Package: "redis-server", Preferred: "valkey-server"}
	for _, c := range []struct {
		installed []string
		want      string
	}{
		{nil, ""},
		{[]string{"redis-server"}, "redis-server"},
		{[]string{"valkey-server"}, "valkey-server"},
		{[]string{"redis-server", "valkey-server"}, "valkey-server"},
	} {
		dir := t.TempDir()
		for _, name := range c.installed {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
		}
		t.Setenv("PATH", dir)
		path, err := r.executable()
		if got := filepath.Base(path); (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("of %v: %s, %v; want %s", c.installed, got, err, c.want)
		}
		if r.there() != (c.want != "") {
			t.Errorf("of %v: there is %v", c.installed, r.there())
		}
	}
}
