// Package servicetest runs the instrumented services as their users do, built
// and started as processes, against an OTLP receiver that decodes what they
// send. It is for tests only, and refuses to fake either side.
package servicetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tare-trace/tare/internal/testkit"
)

var built struct {
	sync.Mutex
	dir   string
	names map[string]bool
}

// Run is for TestMain: it runs the tests, removes what Build built, and looks
// for goroutines that are left.
func Run(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir) // the system's temporary directory
		}
		os.Exit(code)
	}))
}

// Build builds services (thesis, counter), once for all tests of a package, and
// returns the directory of the executables tare-NAME. They have the race
// detector if the tests have.
func Build(t *testing.T, names ...string) string {
	t.Helper()
	testkit.Inputs(t, "workloads", "otel", "span", "internal")
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "tare-servicetest-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.names = dir, map[string]bool{}
	}
	for _, name := range names {
		if built.names[name] {
			continue
		}
		args := []string{"build"}
		if race() {
			args = append(args, "-race")
		}
		args = append(args, "-o", filepath.Join(built.dir, "tare-"+name), "github.com/tare-trace/tare/workloads/"+name)
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		built.names[name] = true
	}
	return built.dir
}

func race() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// Refuse skips a test that cannot run here, and fails it where everything must
// be there (CI=true).
func Refuse(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// CheckMetrics checks text in Prometheus' format with `promtool check metrics`.
func CheckMetrics(t *testing.T, text string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		Refuse(t, "promtool is not installed (Debian package prometheus)")
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
