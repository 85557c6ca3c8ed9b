// Package nativetest starts the processes that tests read, and makes memory
// that lies.
package nativetest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

func needAMD64(t testing.TB) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64")
	}
}

// Child is a process that a test has started.
type Child struct {
	PID int
	Dir string // in the proc file system
	In  io.Writer
	Out *bufio.Scanner

	kill func()
	end  func()
}

// End ends it and waits for that. It may be called more than once.
func (c *Child) End() { c.end() }

// Start starts a command, whose input stays open until it ends, at the test's end if not before.
func Start(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &Child{PID: cmd.Process.Pid, Dir: fmt.Sprintf("/proc/%d", cmd.Process.Pid), In: in, Out: bufio.NewScanner(out)}
	c.Out.Buffer(nil, 1<<20)
	c.kill = func() { _ = cmd.Process.Kill() }
	c.end = sync.OnceFunc(func() {
		_ = in.Close()
		c.kill()
		_ = cmd.Wait()
	})
	t.Cleanup(c.end)
	return c
}

// Ready returns the lines that it prints before "ready", for which it has a minute.
func (c *Child) Ready(t testing.TB) (lines []string) {
	t.Helper()
	defer time.AfterFunc(time.Minute, c.kill).Stop()
	for ; c.Out.Scan(); lines = append(lines, c.Out.Text()) {
		if c.Out.Text() == "ready" {
			return lines
		}
	}
	t.Fatalf("process %d is not ready: %q", c.PID, lines)
	return nil
}

// Run starts a program that amd64 is needed to read, and returns its directory in the proc file system and the lines
// that it prints before "ready". It ends with the test; its input stays open until then.
func Run(t testing.TB, name string, args ...string) (dir string, lines []string) {
	t.Helper()
	needAMD64(t)
	c := Start(t, exec.Command(name, args...))
	return c.Dir, c.Ready(t)
}

// Programs are those that match patterns, and those in an environment variable,
// separated by colons; each file once. It skips the test without any.
func Programs(t testing.TB, variable string, patterns ...string) (paths []string) {
	t.Helper()
	needAMD64(t)
	files := map[string]bool{}
	for _, pattern := range append(patterns, strings.Split(os.Getenv(variable), ":")...) {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			if file, err := filepath.EvalSymlinks(path); err == nil && !files[file] {
				files[file] = true
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		t.Skipf("needs one of %q or of $%s", patterns, variable)
	}
	return paths
}

// Memory is a process's memory, by its addresses.
func Memory(t testing.TB, dir string) io.ReaderAt {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Fake is memory from Base on.
type Fake []byte

// Base is where a Fake begins.
const Base = 0x1000

// ReadAt reads at an address.
func (f Fake) ReadAt(b []byte, off int64) (int, error) {
	if off < Base || off >= Base+int64(len(f)) {
		return 0, io.EOF
	}
	return copy(b, f[off-Base:]), nil
}

// Sources are memory from Base on: one that ends, and one that repeats itself without end.
func Sources(b []byte) []io.ReaderAt {
	return []io.ReaderAt{Fake(b), repeated(append(b[:len(b):len(b)], make([]byte, 8)...))}
}

type repeated []byte

func (r repeated) ReadAt(b []byte, off int64) (int, error) {
	return readingtest.Endless(r).ReadAt(b, off-Base)
}

// Torn changes what it reads: words of some pages are others, small or like an
// address.
type Torn struct {
	Source io.ReaderAt
	Random *rand.Rand
	Rate   float64 // of words that are changed
	Reads  int
}

// ReadAt reads at an address.
func (r *Torn) ReadAt(b []byte, off int64) (int, error) {
	r.Reads++
	n, err := r.Source.ReadAt(b, off)
	for i := 0; i+8 <= n; i += 8 {
		if r.Random.Float64() < r.Rate {
			binary.LittleEndian.PutUint64(b[i:], r.Random.Uint64()>>r.Random.IntN(64))
		}
	}
	return n, err
}
