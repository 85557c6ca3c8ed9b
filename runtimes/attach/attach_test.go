package attach

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// jvm builds an agent that says what it is told, and starts a JVM that does nothing.
func jvm(t *testing.T, command ...string) (pid int, says *bufio.Scanner, jar string) {
	t.Helper()
	for _, tool := range []string{"java", "javac", "jar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no JDK: ", err)
		}
	}
	dir := t.TempDir()
	files := map[string]string{
		"Said.java": `public class Said { public static void agentmain(String options) { System.out.println("loaded " + options); } }`,
		"Main.java": `public class Main { public static void main(String[] a) throws Exception { System.out.println("ready"); Thread.sleep(60000); } }`,
		"manifest":  "Agent-Class: Said\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range [][]string{{"javac", "Said.java", "Main.java"}, {"jar", "cfm", "said.jar", "manifest", "Said.class"}} {
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	cmd := exec.Command(command[0], append(command[1:], "-cp", dir, "Main")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	says = bufio.NewScanner(out)
	if !says.Scan() || says.Text() != "ready" {
		t.Fatalf("the JVM said %q", says.Text())
	}
	return cmd.Process.Pid, says, filepath.Join(dir, "said.jar")
}

func wait(t *testing.T, says *bufio.Scanner, text string) {
	t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { panic("the JVM says nothing") })
	defer timer.Stop()
	for says.Scan() {
		if says.Text() == text {
			return
		}
	}
	t.Fatalf("the JVM ended without %q", text)
}

func TestJava(t *testing.T) {
	pid, says, jar := jvm(t, "java")
	for _, options := range []string{"first", "again, over the socket that is there"} {
		if err := Java(t.Context(), pid, jar, options); err != nil {
			t.Fatal(err)
		}
		wait(t, says, "loaded "+options)
	}
	if left, _ := filepath.Glob(procfs(pid, "cwd/.attach_pid*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	bad := filepath.Join(t.TempDir(), "bad.jar")
	if err := os.WriteFile(bad, []byte("no jar"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Java(t.Context(), pid, bad, ""); err == nil {
		t.Error("a file that is no agent was loaded")
	} else {
		t.Log(err)
	}
}

// TestJavaInContainer attaches to a JVM with pid and mount namespaces of its own, in which the jar is not to be seen.
func TestJavaInContainer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	hidden := t.TempDir()
	pid, says, jar := jvm(t, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
		"sh", "-c", `mount -t tmpfs none "$0" && exec java "$@"`, hidden)
	moved := filepath.Join(hidden, "said.jar")
	if err := os.Rename(jar, moved); err != nil {
		t.Fatal(err)
	}
	// unshare's child is the JVM.
	children, err := os.ReadFile(procfs(pid, fmt.Sprintf("task/%d/children", pid)))
	if err != nil || len(strings.Fields(string(children))) != 1 {
		t.Fatalf("children of unshare: %q %v", children, err)
	}
	inner, err := strconv.Atoi(strings.Fields(string(children))[0])
	if err != nil {
		t.Fatal(err)
	}
	s, err := readStatus(inner)
	if err != nil || s.pid != 1 {
		t.Fatalf("in its namespace it is %d: %v", s.pid, err)
	}
	before, _ := filepath.Glob("/tmp/tare-java-*.jar") // its /tmp is ours
	if err := Java(t.Context(), inner, moved, "inside"); err != nil {
		t.Fatal(err)
	}
	wait(t, says, "loaded inside")
	after, _ := filepath.Glob("/tmp/tare-java-*.jar")
	if len(after) != len(before)+1 {
		t.Errorf("copies of the jar: %v, then %v", before, after)
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			_ = os.Remove(name)
		}
	}
}

func TestProcess(t *testing.T) {
	if err := Process(t.Context(), os.Getpid(), "x.jar"); err == nil || !strings.Contains(err.Error(), "no shim") {
		t.Errorf("this test: %v", err)
	}
	for runtime, command := range map[string][]string{
		"Node.js": {"node", "-e", "console.log(1); setTimeout(() => {}, 60000)"},
		"Python":  {"/usr/bin/python3", "-c", "import time; print(1, flush=True); time.sleep(60)"},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Log("not there: ", err)
			continue
		}
		cmd := exec.Command(command[0], command[1:]...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewScanner(out).Scan()
		var atStart *AtStartError
		if err := Process(t.Context(), cmd.Process.Pid, "x.jar"); !errors.As(err, &atStart) || atStart.Runtime != runtime {
			t.Errorf("%s: %v", runtime, err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func TestSignalIsNotSentToWhomItEnds(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	jar := filepath.Join(t.TempDir(), "x.jar")
	if err := os.WriteFile(jar, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Java(t.Context(), cmd.Process.Pid, jar, ""); err == nil || !strings.Contains(err.Error(), "SIGQUIT") {
		t.Errorf("sleep: %v", err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it ended: %v", err)
	}
}

func TestLoaded(t *testing.T) {
	for answer, ok := range map[string]bool{
		"0\nreturn code: 0\n":   true,
		"0\n0\n":                true,
		"0\n":                   true,
		"0\nreturn code: 102\n": false,
		"100\nAgent JAR not found or no Agent-Class attribute\n":                 false,
		"0\nDynamic agent loading is not enabled. Use -XX:+EnableDynamicAgent\n": false,
		"": false,
	} {
		if err := loaded(1, answer); (err == nil) != ok {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestHasTable(t *testing.T) {
	const rw = "7f00-7f01 rw-s 00000000 00:01 1 "
	for path, has := range map[string]bool{
		"/memfd:tare-threads (deleted)":        true,
		"/dev/shm/tare-threads1234 (deleted)":  true,
		"/memfd:other":                         false,
		"/srv/tare-threads/lib.so":             false,
		"":                                     false,
		"/usr/lib/x86_64-linux-gnu/libjvm.so ": false,
	} {
		if hasTable([]byte(rw+path+"\n")) != has {
			t.Errorf("%q is not %v", path, has)
		}
	}
}
