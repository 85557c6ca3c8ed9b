package kernel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	requests    = 600
	concurrency = 64
)

// verdicts is what kernel.c writes.
type verdicts struct {
	Requests, Right, Unlinked, Stale, Wrong int
	NoRecord                                int `json:"no_record"`
	Guarded, Shared                         int
	Table                                   bool
}

// A service says where it listens, answers /a/N with "ok N", and calls the backend for /b/N.
type service struct {
	kind    string
	calls   int  // of each request; all of them are to be linked rightly, unless:
	none    bool // none may be linked
	some    bool // those that are must be right
	noBody  bool // it reads no bodies
	noTable bool
	command func(backend string) *exec.Cmd
	started func(t *testing.T, pid int)
}

var library = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tare-kernel")
	if err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "kernel.so")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wno-parentheses", "-Werror", "-o", lib, "testdata/kernel.c", "-ldl", "-lpthread").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return lib, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if lib, err := library(); err == nil {
		_ = os.RemoveAll(filepath.Dir(lib))
	}
	os.Exit(code)
}

func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
}

func drive(t *testing.T, s service) {
	t.Helper()
	need(t, "gcc")
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(rand.N(3 * time.Millisecond)) // answers come late and out of order
		_, _ = io.WriteString(w, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	}))
	t.Cleanup(backend.Close)

	file := filepath.Join(t.TempDir(), "verdicts")
	cmd := s.command(backend.URL[strings.LastIndexByte(backend.URL, ':')+1:])
	cmd.Env = append(cmd.Environ(), "LD_PRELOAD="+lib, "TARE_VERDICTS="+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the service said: %s", log.String())
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the service did not begin")
	}
	url := "http://127.0.0.1:" + lines.Text()
	if s.started != nil {
		s.started(t, cmd.Process.Pid)
	}

	send(t, url, !s.noBody)
	if t.Failed() && strings.HasSuffix(cmd.Path, "java") { // what it waits for
		threads, err := exec.Command(filepath.Join(filepath.Dir(cmd.Path), "jcmd"), fmt.Sprint(cmd.Process.Pid), "Thread.print").CombinedOutput()
		t.Logf("%v\n%s", err, threads)
	}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if r, err := client.Get(url + "/verdicts"); err == nil { // whatever the service makes of it
		_ = r.Body.Close()
	}
	var v verdicts
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &v) // it may be half written
		}
		if err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", v)
	switch {
	case v.Requests != requests || v.Right+v.Unlinked+v.Stale+v.Wrong != requests*s.calls:
		t.Errorf("of %d requests with %d calls each, not all were seen", requests, s.calls)
	case v.Wrong > 0:
		t.Errorf("%d calls are linked wrongly", v.Wrong)
	case v.Table == s.noTable:
		t.Errorf("there is a table: %v", v.Table)
	case s.none && v.Right > 0:
		t.Errorf("%d calls are linked, of which nothing can be known", v.Right)
	case !s.none && !s.some && v.Right != requests*s.calls:
		t.Errorf("%d of %d calls are linked", v.Right, requests*s.calls)
	}
}

// send sends the numbered requests, over connections that are kept.
func send(t *testing.T, url string, bodies bool) {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	defer client.CloseIdleConnections()
	body := bytes.Repeat([]byte("x"), 30_000)
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for n := next.Add(1); n <= requests; n = next.Add(1) {
				target, want := fmt.Sprintf("%s/a/%d", url, n), fmt.Sprintf("ok %d", n)
				var r *http.Response
				var err error
				if bodies && n%2 == 0 {
					r, err = client.Post(target, "text/plain", bytes.NewReader(body))
				} else {
					r, err = client.Get(target)
				}
				text := []byte(nil)
				if err == nil {
					text, err = io.ReadAll(r.Body)
					_ = r.Body.Close()
				}
				if (err != nil || string(text) != want) && failed.Add(1) <= 3 {
					t.Errorf("request %d: %v %.200q", n, err, text)
				}
			}
		})
	}
	wg.Wait()
}

func run(t *testing.T, services []service) {
	for _, s := range services {
		t.Run(s.kind, func(t *testing.T) { drive(t, s) })
	}
}

func command(name string, args ...string) func(string) *exec.Cmd {
	return func(backend string) *exec.Cmd {
		cmd := exec.Command(name, append(args, backend)...)
		cmd.Env = append(os.Environ(), "TARE_SHIM=")
		return cmd
	}
}

func TestNode(t *testing.T) {
	need(t, "node")
	run(t, []service{
		{kind: "service", calls: 3, command: command("node", "--require", "../node/tare.js", "../node/test/service.js")},
	})
}

func TestPython(t *testing.T) {
	need(t, "python3")
	python := func(kind string) func(string) *exec.Cmd {
		return command("python3", "../python/tests/service.py", kind)
	}
	run(t, []service{
		{kind: "threads", calls: 1, command: python("threads")},
		{kind: "executors", calls: 3, command: python("pool")},
		{kind: "fork", calls: 1, command: python("fork")},
		{kind: "asyncio streams", calls: 6, command: python("streams")},
		{kind: "asyncio protocol", calls: 6, command: python("protocol")},
		{kind: "workers", calls: 1, none: true, command: python("workers")},
		{kind: "select", calls: 1, none: true, noBody: true, command: python("select")},
	})
}

// TestJava runs on the JDKs in TARE_JDKS (directories, with colons between them), or on java's own. Maven fetches the
// servers and clients.
func TestJava(t *testing.T) {
	need(t, "java", "javac", "jar", "mvn")
	dir := t.TempDir()
	sh := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	jar, again := filepath.Join(dir, "tare-java.jar"), filepath.Join(dir, "again.jar")
	sh("../java/build.sh", jar)
	sh("../java/build.sh", again)
	sh("cmp", jar, again)
	sh("mvn", "-q", "-B", "-f", "../java/test/pom.xml", "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "lib"))
	sources, err := filepath.Glob("../java/test/*/*.java")
	if err != nil {
		t.Fatal(err)
	}
	sh("javac", append([]string{"-d", dir, "-cp", dir + "/lib/*", "../java/test/Service.java", "../java/test/Unseen.java"}, sources...)...)
	libraries, err := filepath.Glob(filepath.Join(dir, "lib", "*.jar"))
	if err != nil {
		t.Fatal(err)
	}
	sh("java", "-cp", dir+"/lib/*", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-no-reflect", "-no-stdlib", "-jvm-target", "17",
		"-cp", strings.Join(append(libraries, dir), ":"), "-d", dir, "../java/test/coroutines")
	jdks := []string{"java"}
	if list := os.Getenv("TARE_JDKS"); list != "" {
		jdks = nil
		for _, d := range strings.Split(list, ":") {
			jdks = append(jdks, filepath.Join(d, "bin/java"))
		}
	}
	for _, java := range jdks {
		settings, _ := exec.Command(java, "-XshowSettings:properties", "-version").CombinedOutput()
		m := regexp.MustCompile(`java.specification.version = (\d+)`).FindSubmatch(settings)
		if m == nil {
			t.Fatalf("%s has no version", java)
		}
		t.Run(string(m[1]), func(t *testing.T) { onJDK(t, java, string(m[1]) >= "21", dir, jar) })
	}
}

func onJDK(t *testing.T, java string, virtual bool, dir, jar string) {
	// What is woven is verified, too, which the JVM does not do with its own classes.
	jvm := func(class, kind string, options ...string) func(string) *exec.Cmd {
		args := append([]string{"-XX:+UnlockDiagnosticVMOptions", "-XX:+BytecodeVerificationLocal", "-cp", dir + ":" + dir + "/lib/*"}, options...)
		return command(java, append(args, class, kind)...)
	}
	agent := "-javaagent:" + jar
	of := func(kind string) func(string) *exec.Cmd { return jvm("Service", kind, agent) }
	attach := func(t *testing.T, pid int) {
		if out, err := exec.Command("jcmd", fmt.Sprint(pid), "JVMTI.agent_load", jar).CombinedOutput(); err != nil {
			t.Fatalf("jcmd: %v %s", err, out)
		}
	}
	services := []service{
		{kind: "pools", calls: 3, command: of("pools")},
		{kind: "client", calls: 3, command: of("client")},
		{kind: "completion", calls: 5, command: of("completion")},
		{kind: "fork", calls: 16, command: of("fork")},
		{kind: "threads", calls: 1, none: true, noBody: true, command: of("threads")},
		{kind: "queue", calls: 1, none: true, command: of("queue")},
		{kind: "loop", calls: 1, none: true, noBody: true, command: of("loop")},
		{kind: "tomcat", calls: 2, command: jvm("TomcatService", "sync", agent)},
		{kind: "tomcat, asynchronous", calls: 1, some: true, command: jvm("TomcatService", "async", agent)},
		{kind: "spring", calls: 3, command: jvm("SpringService", "", agent)},
		{kind: "coroutines", calls: 5, command: jvm("CoroutineServiceKt", "requests", agent)},
		{kind: "coroutines, one that works for all", calls: 1, none: true, command: jvm("CoroutineServiceKt", "worker", agent)},
		{kind: "jetty", calls: 3, command: jvm("JettyService", "sync", agent)},
		{kind: "jetty, its client", calls: 4, command: jvm("JettyService", "client", agent)},
		{kind: "reactor", calls: 5, command: jvm("ReactorService", "", agent, "-Dreactor.netty.native=false")},
		{kind: "reactor, epoll", calls: 5, command: jvm("ReactorService", "", agent)},
		{kind: "reactor, attached: subscribers have no field", calls: 5, some: true, command: jvm("ReactorService", ""), started: attach},
		{kind: "netty, a queue of its own", calls: 1, none: true, command: jvm("NettyService", "queue", agent)},
		{kind: "netty, its pool", calls: 1, command: jvm("NettyService", "pool", agent+"=netty")},
		{kind: "attached", calls: 3, command: jvm("Service", "pools"), started: attach},
		{kind: "fork, attached: tasks have no field", calls: 16, some: true, command: jvm("Service", "fork"), started: attach},
		// What fails in the shim does not reach the application.
		{kind: "no place for the table", calls: 3, none: true, noTable: true, command: jvm("Service", "pools", agent+"=dir=/nonexistent")},
		{kind: "a file system that is none", calls: 3, none: true, noTable: true, command: jvm("Service", "pools", agent+"=dir=/dev/full")},
		{kind: "options that make no sense", calls: 3, none: true, noTable: true, command: jvm("Service", "pools", agent+"=slots=x")},
		{kind: "a table with four slots", calls: 3, some: true, command: jvm("Service", "pools", agent+"=slots=4")},
	}
	if virtual {
		services = append(services, service{kind: "virtual", calls: 3, command: of("virtual")})
	}
	run(t, services)
	t.Run("unseen", func(t *testing.T) {
		if out, err := exec.Command(java, agent, "-cp", dir, "Unseen").CombinedOutput(); err != nil {
			t.Errorf("what the application sees: %v\n%s", err, out)
		}
	})
}
