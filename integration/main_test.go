package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tare is the binary under test, built once, with the laboratory's services
// beside it.
var tare string

func TestMain(m *testing.M) {
	if spec := os.Getenv(goProxyEnv); spec != "" {
		goProxy(spec) // this process is a service under test
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tare-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tare = filepath.Join(dir, "tare")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for name, source := range map[string]string{
		"tare": "../cmd/tare", "tare-agent": "../cmd/tare-agent", "tare-thesis": "../workloads/thesis", "tare-counter": "../workloads/counter",
	} {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), source)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
	}
	raiseFiles()
	return m.Run()
}

// raiseFiles makes room for thousands of connections; children inherit it.
func raiseFiles() {
	const want = 65536
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur >= want {
		return
	}
	l.Cur, l.Max = want, max(l.Max, want)
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l) // without it the test that needs it says so
}

// refuse skips a test that this machine cannot run; in CI that is a failure.
func refuse(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// need refuses a test that has not the privileges or the programs it needs.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("drives real services under load: not with -short")
	}
	if os.Geteuid() != 0 {
		refuse(t, "needs root to load kernel programs")
	}
	for _, p := range programs {
		if program(p) == "" {
			refuse(t, "needs %s", p)
		}
	}
}

// program finds an executable; daemons live in sbin.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// sh runs a command that must succeed.
func sh(t *testing.T, argv ...string) {
	t.Helper()
	path := program(argv[0])
	if path == "" {
		refuse(t, "needs %s", argv[0])
	}
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), path, argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// until polls until the condition holds; what says what it waited for.
func until(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
