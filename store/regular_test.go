package store

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no regular file is refused by name, before anything is read: reading some would wait for ever.
func TestSpecialFiles(t *testing.T) {
	made := t.TempDir()
	s := open(t, Options{Dir: made, byHand: true})
	write(t, s, shop(0, 5))
	if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(path string) error{
		"a named pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a symbolic link": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a socket": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
	}
	if os.Geteuid() == 0 {
		kinds["a device"] = func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5) }
	}
	for what, put := range kinds {
		for _, name := range []string{
			formatFile, ledgerFile, retentionFile, engineDir + "/LOCK", engineDir + "/000099.sst", engineDir + "/000098.log",
			engineDir + "/MANIFEST-000001", engineDir + "/OPTIONS-000097", quarantineDir + "/x/000001.sst", asideDir + "/x/000001.log",
		} {
			dir, err := os.MkdirTemp("", "s") // the name of a socket is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			copyDir(t, made, dir)
			path := filepath.Join(dir, name)
			if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			_, infoErr := Info(dir)
			_, checkErr := Check(t.Context(), dir)
			_, repairErr := Repair(t.Context(), dir, filepath.Join(t.TempDir(), "new"), nil)
			_, openErr := Open(Options{Dir: dir})
			for doing, err := range map[string]error{"info": infoErr, "check": checkErr, "repair": repairErr, "open": openErr} {
				if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s, %s: %v", doing, name, err)
				}
			}
		}
	}
}
