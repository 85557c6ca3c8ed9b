package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bin is where `make build` puts binaries, tare the one under test.
var (
	bin  = absolute("../bin")
	tare = filepath.Join(bin, "tare")
)

var long = flag.Bool("long", false, "also run tests that take a minute or more (make test-long)")

// built are the binaries that the tests run.
var built = []string{"tare", "tare-agent", "tare-thesis", "tare-counter", "tare-hotel", "tare-plain-collector"}

// Some tests enter a network namespace with a thread that they give up. The main
// thread, whose namespace is the process's for everybody else, must not be one of
// them: it runs nothing but the main goroutine.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if spec := os.Getenv(goProxyEnv); spec != "" {
		goProxy(spec) // this process is a service under test
		return
	}
	if listen := os.Getenv(goServiceEnv); listen != "" {
		goServe(listen)
		return
	}
	if listen := os.Getenv(goHTTP2Env); listen != "" {
		goHTTP2(listen)
		return
	}
	if spec := os.Getenv(goGRPCEnv); spec != "" {
		goGRPC(spec)
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", itoa(atOnce())) // a flag of package testing, which takes numbers
	}
	// make test-kernels built both at once; sources may have changed since.
	if err := stale(); err != nil && os.Getenv("TARE_TEST_BUILT") == "" {
		fmt.Fprintf(os.Stderr, "%v: run make build\n", err)
		os.Exit(1)
	}
	if gib() >= 8 {
		debug.SetGCPercent(400) // receivers hold hundreds of thousands of spans
	}
	sayMissing()
	raiseFiles()
	if err := removeLeft(); err != nil {
		fmt.Fprintf(os.Stderr, "what a killed run left behind: %v\n", err)
	}
	os.Exit(m.Run())
}

// stale tells of a binary that is not there, or is older than what it is made of:
// tests of it would say nothing about the sources beside them.
func stale() error {
	oldest, of := time.Now(), ""
	for _, name := range built {
		info, err := os.Stat(filepath.Join(bin, name))
		if err != nil {
			return err
		}
		if info.ModTime().Before(oldest) {
			oldest, of = info.ModTime(), name
		}
	}
	return filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "../.git" || path == "../bin" || path == "../docs" || d.Name() == "hosttest"):
			return filepath.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".o":
			return nil
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(oldest) {
			err = fmt.Errorf("bin/%s is older than %s", of, path)
		}
		return err
	})
}

// sayMissing names what the tests drive and this machine lacks.
func sayMissing() {
	text, err := os.ReadFile("packages")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	var missing []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] != "#" && program(f[0]) == "" && !slices.Contains(missing, f[1]) {
			missing = append(missing, f[1])
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(os.Stderr, "Tests of what is not installed are left out. For all of them: apt-get install --no-install-recommends %s\n",
			strings.Join(missing, " "))
	}
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err) // no working directory
	}
	return abs
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

// alone keeps a test from running beside others, and says why. All others call t.Parallel first; those that are
// alone run before them (go doc testing.T.Parallel).
func alone(t *testing.T, why string) {
	t.Helper()
	t.Attr("alone", why)
	isAlone.Store(true)
	t.Cleanup(func() { isAlone.Store(false) })
}

var isAlone atomic.Bool // the one test that runs

// atOnce is how many tests run at once, unless -parallel says (make test-integration AT_ONCE=8): two for each CPU, since
// most wait, and one for every 4 GiB of memory at most.
func atOnce() int { return max(1, min(2*runtime.NumCPU(), gib()/4)) }

// gib is how much memory this machine has; 0 if that is not known.
func gib() int {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return int(s.Totalram * uint64(s.Unit) >> 30) //nolint:gosec // of memory
}

// needLong leaves out a test that takes a minute or more, unless it is asked for.
func needLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("takes long: make test-long")
	}
}

// need refuses a test that has not the privileges or the programs it needs, and
// says that the test has begun: the whole takes minutes.
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
	if !testing.Verbose() { // which says so itself
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), t.Name())
	}
}

// program finds an executable, or a file by an absolute path; both may be patterns.
// Daemons live in sbin, PostgreSQL's in a directory of their own.
func program(name string) string {
	if filepath.IsAbs(name) {
		return last(filepath.Glob(name))
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/lib/postgresql/*/bin") {
		if path, err := exec.LookPath(last(filepath.Glob(filepath.Join(dir, name)))); err == nil {
			return path
		}
	}
	return ""
}

// last is the greatest of the names that a pattern matched, or "".
func last(names []string, err error) string {
	if err != nil || len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
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
