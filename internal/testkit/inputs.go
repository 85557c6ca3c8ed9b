package testkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Inputs makes directories of this repository inputs of the test, with all below them: those of programs that the
// test builds or starts. The cache of go test knows of itself only what the test's own process opens, and would
// repeat a result after such a program has changed.
func Inputs(t testing.TB, dirs ...string) {
	t.Helper()
	root := Root(t)
	for _, dir := range dirs {
		// Each directory is opened, which is what the cache looks at, with the sizes and times of its files.
		err := filepath.WalkDir(filepath.Join(root, dir), func(string, fs.DirEntry, error) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Root is the directory of this repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "ARCHITECTURE.md")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above has ARCHITECTURE.md")
		}
	}
}
