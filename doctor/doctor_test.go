package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/agent/platform"
	"github.com/tare-trace/tare/agent/tier"
)

// TestMain turns into the process without privileges, if told so.
func TestMain(m *testing.M) {
	if os.Getenv("TARE_TEST_DOCTOR") != "" {
		if err := run(os.Stdout, true); err != nil && !errors.Is(err, ErrCannotRun) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	os.Exit(m.Run())
}

// What the command says is what a start of the agent would meet, and nothing is left.
func TestCommand(t *testing.T) {
	fds := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
	var text, object bytes.Buffer
	before := 0
	var verdict error
	for i, args := range [][]string{nil, {"--json"}} {
		cmd := Command()
		cmd.SetArgs(args)
		cmd.SetOut(&text)
		if i == 1 {
			cmd.SetOut(&object)
			before = fds()
		}
		if verdict = cmd.Execute(); verdict != nil && !errors.Is(verdict, ErrCannotRun) {
			t.Fatal(verdict)
		}
	}
	if after := fds(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	t.Logf("\n%s", text.String())
	for _, want := range append(tier.Names(), "kernel ", "lockdown ", "btf ", "cgroup v2 ", "CAP_BPF", "--bpf-stats", "tier ", "verdict ") {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	var d Diagnosis
	if err := json.Unmarshal(object.Bytes(), &d); err != nil {
		t.Fatalf("%v: %s", err, object.String())
	}
	if (d.Verdict == CanRun) != (verdict == nil) || len(d.Tiers) != len(tier.All) {
		t.Errorf("%v with %s", verdict, object.String())
	}
	tracer, err := kernel.Load(kernel.Options{Cgroup: d.CgroupV2, Payload: true, Traceparent: true, ParentBased: true, SameHost: true})
	if err != nil {
		if d.Verdict == CanRun {
			t.Errorf("doctor says that the agent can run: %v", err)
		}
		return
	}
	defer tracer.Close()
	i := slices.IndexFunc(d.Tiers, func(s Tier) bool { return s.Name == tracer.Tier() })
	if d.Tier != tracer.Tier() || len(d.Tiers[i].Lost) != len(tracer.Lost()) {
		t.Errorf("the agent takes %s without %v; doctor says %s", tracer.Tier(), tracer.Lost(), object.String())
	}
}

// Without privileges, what cannot be tried is unknown.
func TestUnprivileged(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	if os.Geteuid() == 0 {
		cmd = asNobody(t)
	}
	cmd.Env = append(os.Environ(), "TARE_TEST_DOCTOR=1")
	out, err := cmd.Output()
	var d Diagnosis
	if err := errors.Join(err, json.Unmarshal(out, &d)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if slices.ContainsFunc(d.Capabilities, func(c platform.Capability) bool { return c.Effective }) {
		t.Skip("this user may load programs")
	}
	if want := NeedsPrivileges; d.CgroupV2 != "" && d.Verdict != want || d.Tier != NoTier {
		t.Errorf("%s", out)
	}
	for _, s := range d.Tiers {
		if d.CgroupV2 != "" && s.State != Unknown || s.Error == "" {
			t.Errorf("%+v", s)
		}
	}
}

// asNobody is this program as a user without rights, from a place that it may read.
func asNobody(t *testing.T) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-doctor-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "doctor.test")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, from.Close(), to.Close(), os.Chmod(dir, 0o755), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

// attempts are those of a kernel that refuses some tiers, and takes others without a
// capability.
func attempts(refuses map[string]error, lost ...tier.Loss) []kernel.Attempt {
	var list []kernel.Attempt
	for _, t := range []*tier.Tier{{Name: "new", Since: "6.16"}, {Name: "compared", ByName: true}, {Name: "old"}} {
		a := kernel.Attempt{Tier: t, Err: refuses[t.Name]}
		if a.Err == nil {
			a.Lost = lost
		}
		list = append(list, a)
	}
	return list
}

func refusal(name string) error {
	return &kernel.Refusal{Tier: name, Program: "tare_send", Hook: tier.Tracepoint("tcp_sendmsg_locked"), Reason: "no such hook"}
}

func TestDiagnose(t *testing.T) {
	all := map[string]error{"new": refusal("new"), "compared": refusal("compared"), "old": refusal("old")}
	denied := map[string]error{"new": unix.EPERM, "compared": unix.EPERM, "old": unix.EPERM}
	loss := tier.Loss{Capability: "open_connections", Without: "the cost", Reason: "EINVAL"}
	for _, tt := range []struct {
		name       string
		attempts   []kernel.Attempt
		bare       []kernel.Attempt // without reading message bytes
		privileged bool
		verdict    Verdict
		tier       string
		says       []string
	}{
		{"all work", attempts(nil), nil, true, CanRun, "new", []string{"new         works\n", "compared    works (taken only if asked for: --tier compared)"}},
		{"without a capability", attempts(nil, loss), nil, true, CanRun, "new", []string{"verdict     the agent can run here\ntier        new\n\nnew         works without:\n", "compared    works (taken only if asked for: --tier compared) without:", "open_connections: the cost (EINVAL)"}},
		{"an older kernel", attempts(map[string]error{"new": refusal("new")}), nil, true, CanRun, "old", []string{"new         refused: tare_send at tp_btf/tcp_sendmsg_locked: no such hook (it is for Linux 6.16 and newer)\n"}},
		{"none", attempts(all), attempts(all), true, CannotRun, NoTier, []string{"cannot run here"}},
		{"only by name", attempts(map[string]error{"new": refusal("new"), "old": refusal("old")}), attempts(all), true, CannotRun, NoTier, []string{"cannot run here"}},
		{"no message bytes", attempts(all), attempts(map[string]error{"new": refusal("new")}), true, CanRun, "old", []string{"refused (no such hook)", "run with --payload off"}},
		{"nobody", attempts(denied), nil, false, NeedsPrivileges, NoTier, []string{"unknown: not tried: needs root", "as root to be sure"}},
		{"denied to root", attempts(denied), attempts(denied), true, CannotRun, NoTier, []string{"refused: operation not permitted"}},
		{"an old kernel, nobody", attempts(all), nil, false, CannotRun, NoTier, []string{"no such hook"}},
	} {
		try := func(o kernel.Options) []kernel.Attempt {
			if !o.Payload {
				return tt.bare
			}
			return tt.attempts
		}
		d := diagnose(platform.Read(), try, tt.privileged)
		var b bytes.Buffer
		if err := d.Print(&b); err != nil || d.Verdict != tt.verdict || d.Tier != tt.tier {
			t.Errorf("%s: %s %s %v\n%s", tt.name, d.Verdict, d.Tier, err, b.String())
		}
		for _, want := range tt.says {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, b.String())
			}
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteError(t *testing.T) {
	d := Diagnosis{}
	if err := d.Print(fullDisk{}); err == nil {
		t.Error("no error")
	}
}
