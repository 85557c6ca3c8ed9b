package api

import "net/http"

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
	return stats{a.Version, s.Version, s.Spans, s.Traces, s.Bytes, timeText(s.Oldest), timeText(s.Newest),
		s.Written, s.Expired, s.Refused, damage{
			d.LostSpans, d.UnreadableSpans, d.RestoredSpans,
			append([]string{}, d.Quarantine...), append([]string{}, d.Files...), append([]string{}, d.Notes...),
		}}, nil
}

func (a *api) health(r *http.Request) (any, error) {
	if err := newParams(r).done(); err != nil {
		return nil, err
	}
	return map[string]any{"sources": a.Health.Read(r.Context())}, nil
}
