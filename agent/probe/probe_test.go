package probe

import (
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

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/tier"
)

// TestMain turns into the process without privileges, if told so.
func TestMain(m *testing.M) {
	if os.Getenv("TARE_TEST_PROBE") != "" {
		r := Run()
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func needPrivileges(t *testing.T) {
	t.Helper()
	r := Report{Capabilities: capabilities()}
	if os.Geteuid() == 0 && r.Privileged() {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("CI must run this as root")
	}
	t.Skip("needs root and the capabilities to load programs")
}

func TestPrivileged(t *testing.T) {
	needPrivileges(t)
	r := Run()
	for _, f := range r.Features {
		t.Logf("%-32s %-8s %s", f.Name, f.State, f.Error)
		if f.Name == "" || f.Needed == "" || f.Without == "" || f.OK != (f.State == Yes) || f.OK != (f.Error == "") ||
			strings.Contains(f.Error, "\n") || strings.Contains(f.Error, "opcode") {
			t.Errorf("%+v", f)
		}
	}
	if r.Kernel == "" || r.Machine == "" {
		t.Errorf("%+v", r)
	}
	t.Logf("%+v", Choose(&r))

	before, programs := descriptors(t), loaded(t)
	Run()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if after := loaded(t); after != programs {
		t.Logf("%d of our descriptors of bpf before, %d after", programs, after)
		t.Error("programs, maps or links were left behind")
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// loaded counts the descriptors of kernel programs, maps and links.
func loaded(t *testing.T) int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.Contains(to, "bpf") {
			n++
		}
	}
	return n
}

// Without privileges, what cannot be tried is unknown, and what can be is told.
func TestUnprivileged(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	if os.Geteuid() == 0 {
		cmd = asNobody(t)
	}
	cmd.Env = append(os.Environ(), "TARE_TEST_PROBE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Privileged() {
		t.Skip("this user may load programs")
	}
	for _, name := range tier.All[0].Requires() {
		f := r.Feature(name)
		t.Logf("%-32s %-8s %s", f.Name, f.State, f.Error)
		if f.State == "" || f.State == No && name != "cgroup attach" && !strings.Contains(f.Error, errAbsent.Error()) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if tier := Choose(&r); tier.Name != NoTier || len(tier.Unknown) == 0 {
		t.Errorf("%+v", tier)
	}
	if s := r.Feature("sock_ops").State; s != Unknown {
		t.Errorf("sock_ops: %s", s)
	}
	if _, err := CgroupV2(); err == nil && r.CgroupV2 == "" {
		t.Error("the cgroup mount was not found")
	}
}

// asNobody runs a copy of this binary, in a place that others can reach.
func asNobody(t *testing.T) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-probe-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "probe.test")
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

func TestStateOf(t *testing.T) {
	for _, tt := range []struct {
		err        error
		privileged bool
		want       State
	}{
		{nil, false, Yes},
		{unix.EPERM, false, Unknown},
		{fmt.Errorf("map: %w", unix.EACCES), false, Unknown},
		{unix.EPERM, true, No}, // lockdown, or a program that forbids others
		{unix.EINVAL, false, Unknown},
		{unix.EINVAL, true, No},
		{ErrNoCgroupV2, false, No},
		{fmt.Errorf("%w: x", errUnknown), true, Unknown},
	} {
		if got := stateOf(tt.err, tt.privileged); got != tt.want {
			t.Errorf("%v, %v: %s", tt.err, tt.privileged, got)
		}
	}
}

// reportOf is a report of a kernel that lacks some features.
func reportOf(lacks map[string]State) *Report {
	var r Report
	for _, f := range tier.Features() {
		state, ok := lacks[f.Name]
		if !ok {
			state = Yes
		}
		r.Features = append(r.Features, Result{Name: f.Name, State: state, OK: state == Yes})
	}
	return &r
}

func TestChoose(t *testing.T) {
	all := tier.All
	t.Cleanup(func() { tier.All = all })
	tier.All = all[:1]
	best := all[0].Name
	if got := Choose(reportOf(nil)); got.Name != best || got.lacks() > 0 || got.Lost != nil {
		t.Errorf("%+v", got)
	}
	got := Choose(reportOf(map[string]State{"ringbuf": No, "lpm_trie": Unknown}))
	if got.Name != NoTier || !slices.Equal(got.Missing, []string{"ringbuf"}) || !slices.Equal(got.Unknown, []string{"lpm_trie"}) {
		t.Errorf("%+v", got)
	}
	// What no tier needs costs nothing, what a tier can do without costs its capability.
	got = Choose(reportOf(map[string]State{"uprobe": No, "iter/tcp sets sock_ops flags": No, "tp_btf/sched_process_fork": Unknown}))
	var lost []string
	for _, l := range got.Lost {
		lost = append(lost, l.Capability)
	}
	if got.Name != best || got.lacks() > 0 || !slices.Equal(lost, []string{"forked_processes", "open_connections"}) {
		t.Errorf("%+v", got)
	}
}

// Of several tiers the first that is whole is taken, and without one the nearest is told.
func TestChooseAmongTiers(t *testing.T) {
	all := tier.All
	t.Cleanup(func() { tier.All = all })
	hook := func(name string) tier.Program {
		return tier.Program{Name: name, Hook: tier.Tracepoint(name), For: name}
	}
	tier.All = []tier.Tier{
		{Name: "new", Programs: []tier.Program{hook("a"), hook("b")}},
		{Name: "old", Programs: []tier.Program{hook("c")}},
	}
	for _, tt := range []struct {
		lacks map[string]State
		want  string
		names []string
	}{
		{nil, "new", nil},
		{map[string]State{"tp_btf/b": No}, "old", nil},
		{map[string]State{"tp_btf/a": No, "tp_btf/b": No, "tp_btf/c": No}, NoTier, []string{"tp_btf/c"}},
	} {
		if got := Choose(reportOf(tt.lacks)); got.Name != tt.want || !slices.Equal(got.Missing, tt.names) {
			t.Errorf("without %v: %+v", tt.lacks, got)
		}
	}
}

// Every feature that the table names is tried, and nothing else is.
func TestEveryFeatureIsTried(t *testing.T) {
	others := attempts(newMaps(), "", nil)
	known := map[string]bool{}
	for _, f := range tier.Features() {
		if known[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		known[f.Name] = true
		if tried := others[f.Name] != nil; tried == (f.Hook != nil) {
			t.Errorf("%s: a hook %v, tried in another way %v", f.Name, f.Hook != nil, tried)
		}
	}
	for name := range others {
		if !known[name] {
			t.Errorf("%s is tried, and not in the table", name)
		}
	}
}
