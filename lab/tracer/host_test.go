package tracer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
)

// doctor makes an executable that answers like `tare doctor --json` on Linux 6.1, and
// counts how often it is asked.
func doctor(t *testing.T, answer string, status string) (tare string, asked func() int) {
	t.Helper()
	dir := t.TempDir()
	tare = filepath.Join(dir, "tare")
	script := "#!/bin/sh\necho \"$@\" >>" + dir + "/asked\ncat <<'END'\n" + answer + "\nEND\necho trouble >&2\nexit " + status + "\n"
	if err := os.WriteFile(tare, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return tare, func() int {
		b, err := os.ReadFile(filepath.Join(dir, "asked"))
		require.NoError(t, err)
		return strings.Count(string(b), "doctor --json\n")
	}
}

const diagnosed = `{"verdict": "can run", "tier": "fentry", "tiers": [
  {"name": "tracepoint", "state": "refused", "program": "tare_send", "hook": "tp_btf/tcp_sendmsg_locked", "error": "not supported"},
  {"name": "fentry", "state": "partial", "lost": [{"capability": "open_connections"}]},
  {"name": "kprobe", "state": "unknown", "error": "not tried"},
  {"name": "syscall", "state": "works", "by_name": true}],
 "features": [{"name": "IP option", "option": "--tag ip", "state": "refused", "error": "no tc here"},
  {"name": "message bytes", "option": "--payload", "state": "refused"}]}`

func TestHostOffersWhatTheDoctorFound(t *testing.T) {
	tare, asked := doctor(t, diagnosed, "1")
	h := NewHost(tare)
	for flags, want := range map[string]string{
		"":                           "",
		"--same-host=false":          "",
		"--tier auto":                "",
		"--tier fentry":              "",
		"--tier=kprobe":              "",
		"--tier syscall":             "",
		"--tier tracepoint":          "tare_send at tp_btf/tcp_sendmsg_locked: not supported",
		"--events --tier=tracepoint": "not supported",
		"--same-host=false --tag ip": "IP option: no tc here",
		"--tag=ip":                   "IP option: no tc here",
		"--tag none":                 "",
		"--payload off":              "",
	} {
		err := h.offers(t.Context(), &experiment.Tracer{Name: "x", Flags: strings.Fields(flags)})
		elsewhere := (*NotOffered)(nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", flags, err)
		case want != "" && (!errors.As(err, &elsewhere) || !strings.Contains(elsewhere.Reason, want)):
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
	assert.Equal(t, 1, asked())
	err := h.offers(t.Context(), &experiment.Tracer{Name: "x", Flags: []string{"--tier", "fentri"}})
	if elsewhere := (*NotOffered)(nil); err == nil || errors.As(err, &elsewhere) {
		t.Errorf("a tier that no kernel has: %v", err)
	}
}

func TestDoctorThatDoesNotAnswerIsAnError(t *testing.T) {
	for _, answer := range []string{"", "{}", "sorry"} {
		tare, _ := doctor(t, answer, "1")
		err := NewHost(tare).offers(t.Context(), &experiment.Tracer{Name: "x", Flags: []string{"--events"}})
		if elsewhere := (*NotOffered)(nil); err == nil || errors.As(err, &elsewhere) || !strings.Contains(err.Error(), "trouble") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
