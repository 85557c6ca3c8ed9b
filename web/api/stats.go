package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/health"
)

type stats struct {
	Version string `json:"version"` // of tare
	Format  int    `json:"format"`  // of the store's directory
	Spans   uint64 `json:"spans"`
	Traces  uint64 `json:"traces"`
	Bytes   uint64 `json:"bytes"`
	Oldest  string `json:"oldest"` // RFC 3339, "" while the store is empty
	Newest  string `json:"newest"`
	Written uint64 `json:"written"`
	Expired uint64 `json:"expired"`
	Refused uint64 `json:"refused"`
	Damage  damage `json:"damage"`
	// How long spans are kept: all of them, and those of some services. Overdue is how many have expired by the
	// latter and are still on the disk, at most; no query shows them.
	Age       string       `json:"retention_age"` // "" if there is no limit
	Retention []serviceAge `json:"retention_services"`
	Overdue   uint64       `json:"overdue"`
	// Restricted: the reader may not see all services. Then there are only version, format, spans and newest, of those
	// that it may see.
	Restricted bool `json:"restricted"`
}

type serviceAge struct {
	Services string `json:"services"` // a pattern
	Age      string `json:"age"`
}

// damage is what the store knows to be lost, or not readable.
type damage struct {
	LostSpans       uint64   `json:"lost_spans"`       // acknowledged, and in no file
	UnreadableSpans uint64   `json:"unreadable_spans"` // of chunks with a part that cannot be read
	RestoredSpans   uint64   `json:"restored_spans"`   // found in files that the engine did not name
	Quarantine      []string `json:"quarantine"`       // files kept aside
	Files           []string `json:"files"`            // that are damaged
	Notes           []string `json:"notes"`
}

func (a *api) stats(r *http.Request) (any, error) {
	if err := newParams(r).done(); err != nil {
		return nil, err
	}
	s, d := a.Store.Stats(), a.Store.Damage()
	if store.ScopeOf(r.Context()) != nil {
		return a.restricted(r.Context(), s.Version)
	}
	out := stats{
		Version: a.Version, Format: s.Version, Spans: s.Spans, Traces: s.Traces, Bytes: s.Bytes, Oldest: timeText(s.Oldest), Newest: timeText(s.Newest),
		Written: s.Written, Expired: s.Expired, Refused: s.Refused, Overdue: s.Overdue,
		Damage: damage{
			d.LostSpans, d.UnreadableSpans, d.RestoredSpans,
			append([]string{}, d.Quarantine...), append([]string{}, d.Files...), append([]string{}, d.Notes...),
		},
		Retention: []serviceAge{},
	}
	kept := a.Store.Retention()
	if kept.Age > 0 {
		out.Age = duration.Format(kept.Age)
	}
	for _, p := range slices.Sorted(maps.Keys(kept.Services)) {
		out.Retention = append(out.Retention, serviceAge{p, duration.Format(kept.Services[p])})
	}
	return out, nil
}

// restricted counts what the reader may see. What the store as a whole has tells of other services.
func (a *api) restricted(ctx context.Context, format int) (any, error) {
	services, err := a.Store.Services(ctx)
	if err != nil {
		return nil, err
	}
	out := stats{
		Version: a.Version, Format: format, Restricted: true, Retention: []serviceAge{},
		Damage: damage{Quarantine: []string{}, Files: []string{}, Notes: []string{}},
	}
	var newest time.Time
	for _, s := range services {
		out.Spans += s.Spans
		if s.Last.After(newest) {
			newest = s.Last
		}
	}
	out.Newest = timeText(newest)
	return out, nil
}

func (a *api) health(r *http.Request) (any, error) {
	if err := newParams(r).done(); err != nil {
		return nil, err
	}
	sources := a.Health.Read(r.Context())
	if scope := store.ScopeOf(r.Context()); scope != nil {
		sources = health.Restrict(sources, scope.Service)
	}
	return map[string]any{"sources": sources}, nil
}
