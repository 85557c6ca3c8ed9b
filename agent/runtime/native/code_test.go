package native

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

// What is mapped as code counts, page by page, and nothing else.
func TestCodePages(t *testing.T) {
	pages := func() uint64 {
		n, err := CodePages("/proc/self", reading.New())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := pages()
	for prot, want := range map[int]uint64{syscall.PROT_READ: 0, syscall.PROT_READ | syscall.PROT_EXEC: 3} {
		m, err := syscall.Mmap(-1, 0, 3*os.Getpagesize(), prot, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		if got := pages() - before; got != want {
			t.Errorf("3 pages mapped with %#x are %d pages of code, want %d", prot, got, want)
		}
		if err := syscall.Munmap(m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCodePagesOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "Name:\tx\n", "VmExe:\t 4 kB\n", "VmExe:\t 4 kB\nVmLib:\t many kB\n"} {
		if err := os.WriteFile(filepath.Join(dir, "status"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := CodePages(dir, reading.New()); err == nil {
			t.Errorf("%q is %d pages", text, n)
		}
	}
}
