package tracerprocessor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/tare-trace/tare/collector/internal/journal"
	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/internal/testkit"
)

type extensions map[component.ID]component.Component

func (h extensions) GetExtensions() map[component.ID]component.Component { return h }

var storeID = component.NewID(storeextension.Type)

// storeIn opens the extension that keeps the journal, on a directory.
func storeIn(t testing.TB, dir string, sync bool) extension.Extension {
	t.Helper()
	cfg := storeextension.NewFactory().CreateDefaultConfig().(*storeextension.Config)
	cfg.Directory, cfg.Sync = dir, sync
	e, err := storeextension.NewFactory().Create(context.Background(), extensiontest.NewNopSettings(storeextension.Type), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	return e
}

// journaled starts a processor with a journal, that of the extension.
func journaled(t testing.TB, e extension.Extension, change func(*Config), next consumer.Traces) processor.Traces {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Journal = &storeID
	if change != nil {
		change(cfg)
	}
	p, err := NewFactory().CreateTraces(context.Background(), processortest.NewNopSettings(Type), cfg, next)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(context.Background(), extensions{storeID: e}); err != nil {
		t.Fatal(err)
	}
	return p
}

func stop(t testing.TB, components ...component.Component) {
	t.Helper()
	for _, c := range components {
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// What was acknowledged, waits, or is being passed on, is in the journal: a process that
// begins with the directory, as it is at that moment, passes all of it on, but not what is
// stored.
func TestJournal(t *testing.T) {
	for _, sync := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "store")
		e := storeIn(t, dir, sync)
		p := journaled(t, e, nil, consumertest.NewNop())
		for i := range uint64(40) {
			td := ptrace.NewTraces()
			add(td, i+1, 10*i+1, 0)
			add(td, i+1, 10*i+2, 10*i+1)
			consume(t, p, td)
		}
		// One of them was stored, and the process ended before the journal noticed.
		stored := ptrace.NewTraces()
		add(stored, 7, 61, 0)
		add(stored, 7, 62, 61)
		if err := e.(storeextension.Extension).Store().Write(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(t.TempDir(), "other")
		if err := errors.Join(os.CopyFS(other, os.DirFS(dir)), os.Chmod(other, 0o700)); err != nil {
			t.Fatal(err)
		}
		stop(t, p, e)

		e = storeIn(t, other, sync)
		var sink consumertest.TracesSink
		p = journaled(t, e, nil, &sink)
		testkit.Until(t, 15*time.Second, "all spans are passed on", func() bool { return sink.SpanCount() >= 78 })
		if n := sink.SpanCount(); n != 78 {
			t.Errorf("%d spans, want 78", n)
		}
		stop(t, p, e)
		if left, err := filepath.Glob(filepath.Join(other, "journal", "*", "*")); err != nil || len(left) > 0 {
			t.Errorf("after the end the journal has %v, %v", left, err)
		}
	}
}

// gate is a consumer that takes nothing until it is opened.
type gate struct {
	consumertest.TracesSink
	open chan struct{}
}

func (g *gate) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	<-g.open
	return g.TracesSink.ConsumeTraces(ctx, td)
}

// A segment stays while the next consumer has not taken what it holds, and goes then.
func TestJournalIsFreed(t *testing.T) {
	e := storeIn(t, filepath.Join(t.TempDir(), "store"), false)
	next := &gate{open: make(chan struct{})}
	p := journaled(t, e, atOnce, next)
	td := ptrace.NewTraces()
	add(td, 1, 1, 0)
	consume(t, p, td)
	k := p.(*tracer).keeper
	testkit.Until(t, 15*time.Second, "the segment is complete", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.freed) > 0
	})
	if k.Bytes() == 0 {
		t.Error("it is gone before the consumer has taken its spans")
	}
	close(next.open)
	testkit.Until(t, 15*time.Second, "it is gone", func() bool { return k.Bytes() == 0 })
	stop(t, p, e)
}

// What a full journal refuses is counted, its sender may send it again, and what was acknowledged arrives.
func TestFullJournal(t *testing.T) {
	e := storeIn(t, filepath.Join(t.TempDir(), "store"), false)
	next := &gate{open: make(chan struct{})}
	p := journaled(t, e, func(c *Config) { c.Settle, c.MaxJournalBytes = 0, 1000 }, next)
	one := func(n uint64) error {
		td := ptrace.NewTraces()
		add(td, n, n, 0)
		return p.ConsumeTraces(t.Context(), td)
	}
	taken := uint64(0)
	err := error(nil)
	for err == nil && taken < 1000 {
		if err = one(taken + 1); err == nil {
			taken++
		}
	}
	k, refused := p.(*tracer).keeper, &p.(*tracer).unkept
	if !errors.Is(err, journal.ErrFull) || consumererror.IsPermanent(err) || k.Bytes() > 1000 || refused.Load() != 1 {
		t.Fatalf("%d requests of %d bytes, %d refused: %v", taken, k.Bytes(), refused.Load(), err)
	}
	close(next.open)
	testkit.Until(t, 15*time.Second, "there is room again", func() bool { return one(taken+1) == nil })
	testkit.Until(t, 15*time.Second, "all have arrived", func() bool { return next.SpanCount() == int(taken)+1 }) //nolint:gosec // a count
	stop(t, p, e)
}

// Two processors cannot share a journal; a configuration without the extension is refused.
func TestJournalOfNobody(t *testing.T) {
	e := storeIn(t, filepath.Join(t.TempDir(), "store"), false)
	p := journaled(t, e, nil, consumertest.NewNop())
	cfg := createDefaultConfig().(*Config)
	cfg.Journal = &storeID
	for _, host := range []component.Host{extensions{storeID: e}, componenttest.NewNopHost()} {
		q, err := NewFactory().CreateTraces(t.Context(), processortest.NewNopSettings(Type), cfg, consumertest.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Start(t.Context(), host); err == nil {
			t.Error("started")
		}
		stop(t, q)
	}
	stop(t, p, e)
}
