package packaging

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf"

	"github.com/tare-trace/tare/packaging/internal/built"
)

const nobody = 65534

// filtered is set in the process that limits its own system calls and becomes what it is asked to run.
const filtered = "TARE_TEST_SYSTEM_CALLS"

func TestMain(m *testing.M) {
	if calls := os.Getenv(filtered); calls != "" {
		fmt.Fprintln(os.Stderr, limit(strings.Fields(calls), os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// limit returns only if it fails.
func limit(calls, argv []string) error {
	// What systemd does for names that this architecture, or this kernel, does not have.
	var known []string
	for _, name := range calls {
		one := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{{Names: []string{name}, Action: seccomp.ActionErrno}}}
		if _, err := one.Assemble(); err == nil {
			known = append(known, name)
		}
	}
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls:      []seccomp.SyscallGroup{{Names: known, Action: seccomp.ActionAllow}},
	}})
	if err != nil {
		return err
	}
	if err := os.Unsetenv(filtered); err != nil {
		return err
	}
	return syscall.Exec(argv[0], argv, os.Environ()) //nolint:gosec // the test's own
}

// unit is a systemd unit's [Service], by key; what is said twice is joined.
func unit(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	keys, section := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if key, value, ok := strings.Cut(line, "="); ok && section == "[Service]" && !strings.HasPrefix(line, "#") {
			keys[key] = strings.TrimSpace(keys[key] + " " + value)
		}
	}
	return keys
}

// systemCalls are those of a filter, its sets expanded as systemd does.
func systemCalls(t *testing.T, filter string) (names []string) {
	t.Helper()
	for _, name := range strings.Fields(filter) {
		if !strings.HasPrefix(name, "@") {
			names = append(names, name)
			continue
		}
		out, err := exec.Command("systemd-analyze", "syscall-filter", "--no-pager", name).Output()
		if err != nil {
			t.Fatalf("systemd-analyze syscall-filter %s: %v", name, err)
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && line != name {
				names = append(names, systemCalls(t, line)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// under is a command as the unit allows it: its capabilities, no new ones, its system calls, and nobody's user.
func under(ctx context.Context, t *testing.T, u map[string]string, argv ...string) *exec.Cmd {
	t.Helper()
	if u["NoNewPrivileges"] != "yes" || u["DynamicUser"] != "yes" || u["AmbientCapabilities"] != u["CapabilityBoundingSet"] {
		t.Fatalf("the unit allows more than this test: %v", u)
	}
	caps := "-all"
	for _, c := range strings.Fields(u["AmbientCapabilities"]) {
		caps += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--reuid", fmt.Sprint(nobody), "--regid", fmt.Sprint(nobody), "--clear-groups",
		"--inh-caps", caps, "--ambient-caps", caps, "--bounding-set", caps, "--no-new-privs", self}, argv...)
	cmd := exec.CommandContext(ctx, "setpriv", args...) //nolint:gosec // the test's own
	cmd.Env = append(os.Environ(), filtered+"="+strings.Join(systemCalls(t, u["SystemCallFilter"]), " "))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

func needsRoot(t *testing.T) {
	t.Helper()
	reason := ""
	if os.Geteuid() != 0 {
		reason = "not root"
	}
	for _, tool := range []string{"setpriv", "systemd-analyze"} {
		if _, err := exec.LookPath(tool); err != nil {
			reason = tool + " is not installed"
		}
	}
	if reason == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// The agent traces another user's service, with what its unit allows and nothing else.
func TestAgentUnderItsUnit(t *testing.T) {
	needsRoot(t)
	agent := built.Agent(t, "..")
	service := serve(t)
	for _, missing := range []string{"", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"} {
		t.Run("without "+missing, func(t *testing.T) {
			u := unit(t, "tare-agent.service")
			for _, key := range []string{"AmbientCapabilities", "CapabilityBoundingSet"} {
				u[key] = strings.Join(slices.DeleteFunc(strings.Fields(u[key]), func(c string) bool { return c == missing }), " ")
			}
			traced, said := traces(t, 2*time.Minute, u, agent, service)
			if traced != (missing == "") {
				t.Errorf("traced: %v\n%s", traced, said)
			}
			if missing != "" && !strings.Contains(said, missing+" (") {
				t.Errorf("it does not say that %s is missing:\n%s", missing, said)
			}
		})
	}
}

// serve is a service of another user, at the address.
func serve(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	cmd := exec.Command("setpriv", "--reuid", "33", "--regid", "33", "--clear-groups", "/usr/bin/python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", port) //nolint:gosec // the test's own
	cmd.Dir = "/"
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return address
		}
		if time.Now().After(until) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("the service does not listen: %s", said)
		}
	}
}

// traces reports whether the agent, run so, prints a span of a request to the service, or what it said instead.
func traces(t *testing.T, patience time.Duration, u map[string]string, agent, service string) (traced bool, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, port, _ := net.SplitHostPort(service)
	cmd := under(ctx, t, u, agent, "--port", "web="+port, "--print", "json", "--listen", "none")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	spans := make(chan string, 1)
	go func() {
		defer close(spans)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), "web") {
				select {
				case spans <- lines.Text():
				default:
				}
			}
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for again := time.NewTicker(200 * time.Millisecond); !traced; {
		select {
		case <-again.C:
			resp, err := client.Get("http://" + service + "/etc/hostname")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			continue
		case _, traced = <-spans: // closed: the agent has ended
		case <-ctx.Done():
		}
		break
	}
	cancel()
	_ = cmd.Wait() // it was told to end, or could not begin
	return traced, log.String()
}
