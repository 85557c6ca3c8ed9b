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
}

func (a *api) stats(r *http.Request) (any, error) {
	if err := newParams(r).done(); err != nil {
		return nil, err
	}
	s := a.Store.Stats()
	return stats{a.Version, s.Version, s.Spans, s.Traces, s.Bytes, timeText(s.Oldest), timeText(s.Newest),
		s.Written, s.Expired, s.Refused}, nil
}

func (a *api) health(r *http.Request) (any, error) {
	if err := newParams(r).done(); err != nil {
		return nil, err
	}
	return map[string]any{"sources": a.Health.Read(r.Context())}, nil
}
