package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/probe"
)

func TestCommand(t *testing.T) {
	fds := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
	var text, object bytes.Buffer
	before := 0
	for i, args := range [][]string{nil, {"--json"}} {
		cmd := Command()
		cmd.SetArgs(args)
		cmd.SetOut(&text)
		if i == 1 {
			cmd.SetOut(&object)
			before = fds()
		}
		if err := cmd.Execute(); err != nil && !errors.Is(err, ErrCannotRun) {
			t.Fatal(err)
		}
	}
	if after := fds(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	t.Logf("\n%s", text.String())
	for _, want := range []string{"kernel ", "cgroup v2 ", "CAP_BPF", "tp_btf/tcp_rcv_space_adjust", "tier ", "verdict "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	var d Diagnosis
	if err := json.Unmarshal(object.Bytes(), &d); err != nil || d.Verdict == "" || len(d.Features) == 0 || d.Tier.Name == "" {
		t.Errorf("%v: %s", err, object.String())
	}
}

func report(state probe.State, effective bool) probe.Report {
	r := probe.Run() // for the names
	for i := range r.Features {
		r.Features[i].State, r.Features[i].OK, r.Features[i].Error = state, state == probe.Yes, ""
		if state != probe.Yes {
			r.Features[i].Error = "reason"
		}
	}
	for i := range r.Capabilities {
		r.Capabilities[i].Effective = effective
	}
	return r
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name      string
		state     probe.State
		effective bool
		want      Verdict
		says      string
	}{
		{"all", probe.Yes, true, CanRun, "the agent can run here"},
		{"nobody", probe.Unknown, false, NeedsPrivileges, "as root to be sure"},
		{"untold", probe.Unknown, true, CannotRun, "cannot run here: btf"},
		{"old kernel", probe.No, true, CannotRun, "cannot run here: btf"},
		{"old kernel, nobody", probe.No, false, CannotRun, "cannot run here: btf"},
	} {
		d := Diagnose(report(tt.state, tt.effective))
		var b bytes.Buffer
		if err := d.Print(&b); err != nil || d.Verdict != tt.want || !strings.Contains(b.String(), tt.says) {
			t.Errorf("%s: %s %v\n%s", tt.name, d.Verdict, err, b.String())
		}
	}
}

// What is missing and not needed by the tier does not forbid to run, but is
// told with its cost.
func TestOptional(t *testing.T) {
	r := report(probe.Yes, true)
	for i := range r.Features {
		if r.Features[i].Name == "iter/tcp" {
			r.Features[i] = probe.Result{Name: "iter/tcp", State: probe.No, Error: "reason", Without: "the cost"}
		}
	}
	var b bytes.Buffer
	d := Diagnose(r)
	if err := d.Print(&b); err != nil || d.Verdict != CanRun || !strings.Contains(b.String(), "the cost") {
		t.Errorf("%v %v\n%s", d.Verdict, err, b.String())
	}
	if !strings.Contains(b.String(), "lost        open_connections: ") {
		t.Errorf("the capability is not named\n%s", b.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteError(t *testing.T) {
	if err := Diagnose(report(probe.Yes, true)).Print(fullDisk{}); err == nil {
		t.Error("no error")
	}
}
