package storecommand

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/store"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// A store whose only table is cut off: info and check say it, repair says what is gone.
func TestCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(3) {
		td := ptrace.NewTraces()
		sp := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		sp.SetTraceID([16]byte{i + 1})
		sp.SetSpanID([8]byte{i + 1})
		sp.SetStartTimestamp(1_700_000_000_000_000_000)
		sp.SetEndTimestamp(1_700_000_000_000_000_001)
		if err := s.Write(t.Context(), td); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(t, "check", dir); !errors.Is(err, store.ErrInUse) {
		t.Errorf("open: %s, %v", out, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "check", dir); err != nil || !strings.Contains(out, "sound") || !strings.Contains(out, "3, of 3 traces") {
		t.Errorf("%s, %v", out, err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "pebble", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, name := range logs {
		if err := os.Truncate(name, 900); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(t, "info", dir); err != nil || !strings.Contains(out, "spans that were acknowledged are not there") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run(t, "check", "--json", dir); !errors.Is(err, cli.ErrSaid) || !strings.Contains(out, `"sound": false`) {
		t.Errorf("%s, %v", out, err)
	}
	to := filepath.Join(t.TempDir(), "new")
	out, err := run(t, "repair", dir, to)
	if err != nil || !strings.Contains(out, "salvaged") || !strings.Contains(out, "2023-11-14T22:13:20Z") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run(t, "check", to); err != nil || !strings.Contains(out, "sound") {
		t.Errorf("the repaired one: %s, %v", out, err)
	}
	if _, err := run(t, "repair", dir, to); err == nil {
		t.Error("repaired into a directory that is not empty")
	}
	if _, err := run(t, "info", to+"none"); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
}
