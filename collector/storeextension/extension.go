// Package storeextension is the collector extension `tare_store`: it opens the embedded
// store, which the exporter and the page share. The store is open before the pipelines
// start and until they have stopped.
//
// It neither writes nor reads spans. The exporter tare_store and the extension tare_page
// do; they find it by its component id, see [Find].
package storeextension

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/tare-trace/tare/store"
)

// Extension is the component's interface for other components.
type Extension interface {
	extension.Extension
	// Store is the open store; nil before Start and after Shutdown.
	Store() *store.Store
}

// Find returns the open store of the extension with this id, or an error that says what
// is wrong with the configuration. An extension that calls it in Start has to list the id
// in its Dependencies, else it may be started first.
func Find(host component.Host, id component.ID) (*store.Store, error) {
	c, ok := host.GetExtensions()[id]
	if !ok {
		return nil, fmt.Errorf("there is no extension %q: add it to `extensions` and to `service::extensions`", id)
	}
	e, ok := c.(Extension)
	if !ok {
		return nil, fmt.Errorf("extension %q is no %s", id, Type)
	}
	s := e.Store()
	if s == nil {
		return nil, fmt.Errorf("extension %q is not open yet", id)
	}
	return s, nil
}

type storeExtension struct {
	config   *Config
	settings component.TelemetrySettings
	store    atomic.Pointer[store.Store]
	metrics  *metrics

	mu       sync.Mutex
	journals map[string]bool // names that are in use
}

// Journal makes tracerprocessor find a directory for its journal: beside what is stored, and
// like that for one process at a time.
func (e *storeExtension) Journal(name string) (dir string, sync bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.store.Load() == nil {
		return "", false, errors.New("the store is not open")
	}
	if e.journals[name] {
		return "", false, fmt.Errorf("%s is in several pipelines, and its journal can be of one: configure another processor for each, as %s/2", name, name)
	}
	if e.journals == nil {
		e.journals = map[string]bool{}
	}
	e.journals[name] = true
	return filepath.Join(e.config.Directory, "journal", strings.ReplaceAll(name, "/", "_")), e.config.Sync, nil
}

// Stored returns the spans of a trace that are stored.
func (e *storeExtension) Stored(ctx context.Context, id pcommon.TraceID) (map[pcommon.SpanID]bool, error) {
	s := e.store.Load()
	if s == nil {
		return nil, errors.New("the store is not open")
	}
	td, err := s.Trace(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	spans := make(map[pcommon.SpanID]bool, td.SpanCount())
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, sp := range ss.Spans().All() {
				spans[sp.SpanID()] = true
			}
		}
	}
	return spans, err
}

func (e *storeExtension) Store() *store.Store { return e.store.Load() }

// Start opens the store, and creates its directory if necessary.
func (e *storeExtension) Start(context.Context, component.Host) error {
	dir := e.config.Directory
	// Only this user may read spans: they say much about a system.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the store's directory cannot be made: %w; set `directory` to one that this user may write", err)
	}
	s, err := store.Open(store.Options{
		Dir:      dir,
		NoSync:   !e.config.Sync,
		MaxAge:   e.config.Retention.Age.Std(),
		Services: e.config.Retention.services(),
		MaxBytes: int64(e.config.Retention.Size), MaxLogBytes: int64(e.config.Retention.Logs),
		Log: slog.New(zapslog.NewHandler(e.settings.Logger.Core())),
	})
	if errors.Is(err, store.ErrInUse) {
		return fmt.Errorf("%w: %s: another tare runs on it; stop it, or set another `directory`", err, dir)
	}
	if err != nil {
		return err
	}
	m, err := observe(e.settings.MeterProvider, s)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if d := s.Damage(); d.Any() {
		e.settings.Logger.Error("the store was damaged: `tare store check` says more, `tare store repair` salvages what can be read",
			zap.String("directory", dir), zap.Uint64("lost_spans", d.LostSpans), zap.Uint64("restored_spans", d.RestoredSpans),
			zap.Uint64("unreadable_spans", d.UnreadableSpans), zap.Strings("quarantine", d.Quarantine))
	}
	e.metrics = m
	e.store.Store(s)
	stats := s.Stats()
	e.settings.Logger.Info("store is open", zap.String("directory", dir), zap.Bool("sync", e.config.Sync),
		zap.Stringer("retention_age", e.config.Retention.Age), zap.Stringer("retention_size", e.config.Retention.Size),
		zap.Uint64("spans", stats.Spans), zap.Uint64("bytes", stats.Bytes))
	return nil
}

// Shutdown closes the store. The pipelines and the extensions that depend on this one
// have stopped before.
func (e *storeExtension) Shutdown(context.Context) error {
	e.mu.Lock()
	e.journals = nil
	e.mu.Unlock()
	s := e.store.Swap(nil)
	if s == nil {
		return nil
	}
	return errors.Join(e.metrics.stop(), s.Close())
}
