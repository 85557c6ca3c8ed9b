package storeextension

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

func newExtension(t *testing.T, change func(*Config)) (extension.Extension, *componenttest.Telemetry) {
	t.Helper()
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	cfg.Directory = filepath.Join(t.TempDir(), "a", "store")
	if change != nil {
		change(cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { _ = tel.Shutdown(context.WithoutCancel(t.Context())) })
	set := extensiontest.NewNopSettings(Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	e, err := NewFactory().Create(t.Context(), set, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e, tel
}

func start(t *testing.T, e extension.Extension) {
	t.Helper()
	if err := e.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
}

func shutdown(t *testing.T, e extension.Extension) {
	t.Helper()
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func oneSpan(id byte) ptrace.Traces {
	td := ptrace.NewTraces()
	sp := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	sp.SetTraceID([16]byte{id})
	sp.SetSpanID([8]byte{id})
	sp.SetStartTimestamp(1_700_000_000_000_000_000)
	sp.SetEndTimestamp(1_700_000_000_000_000_001)
	return td
}

func TestDirectoryIsMadeForOneUser(t *testing.T) {
	e, _ := newExtension(t, nil)
	dir := e.(*storeExtension).config.Directory
	start(t, e)
	defer shutdown(t, e)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestCreatingOpensNothing(t *testing.T) {
	e, _ := newExtension(t, nil)
	if _, err := os.Stat(e.(*storeExtension).config.Directory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there before the start: %v", err)
	}
	shutdown(t, e) // never started
}

func TestFind(t *testing.T) {
	e, _ := newExtension(t, nil)
	id, other := component.NewID(Type), component.MustNewIDWithName("tare_store", "other")
	h := host{id: e, other: nopExtension{}}
	for _, c := range []struct {
		id   component.ID
		want string
	}{
		{component.MustNewID("elsewhere"), "service::extensions"},
		{other, "is no tare_store"},
		{id, "not open yet"},
	} {
		if _, err := Find(h, c.id); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", c.id, err, c.want)
		}
	}
	start(t, e)
	s, err := Find(h, id)
	if err != nil || s == nil || s != e.(Extension).Store() {
		t.Fatalf("%p, %v", s, err)
	}
	shutdown(t, e)
	if _, err := Find(h, id); err == nil {
		t.Error("found after it was closed")
	}
	if err := s.Write(t.Context(), oneSpan(1)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("written after it was closed: %v", err)
	}
}

type nopExtension struct {
	component.StartFunc
	component.ShutdownFunc
}

func TestDirectoryInUse(t *testing.T) {
	e, _ := newExtension(t, nil)
	dir := e.(*storeExtension).config.Directory
	start(t, e)
	second, _ := newExtension(t, func(c *Config) { c.Directory = dir })
	err := second.Start(t.Context(), componenttest.NewNopHost())
	if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the second one on %s: %v", dir, err)
	}
	shutdown(t, second)
	shutdown(t, e)
	start(t, second) // free again
	shutdown(t, second)
}

func TestDirectoryThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e, _ := newExtension(t, func(c *Config) { c.Directory = filepath.Join(file, "below") })
	err := e.Start(t.Context(), componenttest.NewNopHost())
	if err == nil || !strings.Contains(err.Error(), "`directory`") || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

func TestMetrics(t *testing.T) {
	e, tel := newExtension(t, nil)
	start(t, e)
	for id := range byte(3) {
		if err := e.(Extension).Store().Write(t.Context(), oneSpan(id+1)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int64{
		"tare_store_spans": 3, "tare_store_written_spans": 3, "tare_store_expired_spans": 0, "tare_store_refused_spans": 0,
	} {
		if got := value(t, tel, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := value(t, tel, "tare_store_size"); got <= 0 {
		t.Errorf("tare_store_size: %d", got)
	}
	shutdown(t, e)
	if _, err := tel.GetMetric("tare_store_spans"); err == nil {
		t.Error("a store that is closed is still observed")
	}
}
