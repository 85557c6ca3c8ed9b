package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is no configuration is refused at once, and nothing of it is told.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	secret := "root:$6$salt$c2VjcmV0:19000:0:99999:7:::\n"
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("shadow", secret+strings.ReplaceAll(secret, "root", "other"), 0o600)
	write("quoted", "a: &b 1\nc: *"+"c2VjcmV0\n", 0o600)
	write("lines", "services: [\n"+secret, 0o600)
	write("key", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", 0o600)
	write("huge", strings.Repeat("# c2VjcmV0\n", 2*maxFile/11), 0o600)
	if err := unix.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path("shadow"), path("link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path("shadow"), path("quoted"), path("lines"), path("key"), path("huge"), path("fifo"), path("link"), dir, "/dev/zero", "/dev/null", "/proc/self/mem"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, err := Load(nil, []string{"TARE_CONFIG=" + name, "TARE_PORTS=80"})
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "c2VjcmV0") {
					t.Errorf("%v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it is waited for")
			}
		})
	}
}

// A link of one user to a file of another one is not obeyed; links as Kubernetes makes them
// are.
func TestLinkedFile(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.yaml")
	if err := os.Mkdir(filepath.Join(dir, "..2026"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..2026", "agent.yaml"), []byte("services: [{ports: [80]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"..data": "..2026", "agent.yaml": "..data/agent.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	load := func() error {
		_, err := Load(nil, []string{"TARE_CONFIG=" + config})
		return err
	}
	if err := load(); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a link to somebody")
	}
	const nobody = 65534
	if err := os.Lchown(config, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := load(); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("nobody's link to a file of root: %v", fmt.Sprint(err))
	}
}
