package api

import (
	"net/http"
	"time"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

type service struct {
	Name  string `json:"name"`
	Spans uint64 `json:"spans"`
	Last  string `json:"last"` // RFC 3339: start of its newest span
}

func (a *api) services(r *http.Request) (any, error) {
	if err := newParams(r).done(); err != nil {
		return nil, err
	}
	found, err := a.Store.Services(r.Context())
	if err != nil {
		return nil, err
	}
	out := make([]service, 0, len(found))
	for _, s := range found {
		out = append(out, service{s.Name, s.Spans, timeText(s.Last)})
	}
	return map[string]any{"services": out}, nil
}

type operation struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Spans uint64 `json:"spans"`
}

// operations are the span names of a service, which is required.
func (a *api) operations(r *http.Request) (any, error) {
	p := newParams(r)
	name := p.text("service")
	if name == "" {
		p.fail("service", "", "the name of a service")
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	found, err := a.Store.Operations(r.Context(), name)
	if err != nil {
		return nil, err
	}
	out := make([]operation, 0, len(found))
	for _, o := range found {
		out = append(out, operation{o.Name, kindName(o.Kind), o.Spans})
	}
	return map[string]any{"operations": out}, nil
}

type summary struct {
	TraceID  string         `json:"trace_id"`
	Service  string         `json:"service"`
	Name     string         `json:"name"`
	Target   string         `json:"target"` // beside the name: a path, a query, "" if unknown
	Start    string         `json:"start"`  // RFC 3339
	Duration int64          `json:"duration_ns"`
	Spans    int            `json:"spans"`
	Errors   int            `json:"errors"`
	Services []serviceCount `json:"services"`
	State    string         `json:"state"`
	Reason   string         `json:"reason"`
	Keep     string         `json:"keep"`
	Weight   float64        `json:"weight"`
}

type serviceCount struct {
	Name   string `json:"name"`
	Spans  int    `json:"spans"`
	Errors int    `json:"errors"`
}

type page struct {
	Traces    []summary `json:"traces"`
	Next      string    `json:"next"`
	Truncated bool      `json:"truncated"`
	Reached   string    `json:"reached"`
	Damaged   int       `json:"damaged"` // chunks of spans and traces that cannot be read, and may be missing here
}

func (a *api) search(r *http.Request) (any, error) {
	q, err := searchQuery(newParams(r), time.Now())
	if err != nil {
		return nil, err
	}
	found, err := a.Store.Search(r.Context(), q)
	if err != nil {
		return nil, err
	}
	out := page{Traces: make([]summary, 0, len(found.Traces)), Next: found.Next,
		Truncated: found.Truncated, Reached: timeText(found.Reached), Damaged: found.Damaged}
	for _, t := range found.Traces {
		s := summary{
			TraceID: t.TraceID.String(), Service: t.Service, Name: t.Root, Target: t.Target, Start: timeText(t.Start),
			Duration: int64(t.Duration), Spans: t.Spans, Errors: t.Errors, Services: make([]serviceCount, 0, len(t.Services)),
			State: t.State, Reason: t.Reason, Keep: t.Keep, Weight: finite(t.Weight),
		}
		for _, c := range t.Services {
			s.Services = append(s.Services, serviceCount(c))
			answer.Note(r.Context(), 0, c.Name)
		}
		answer.Note(r.Context(), 1)
		out.Traces = append(out.Traces, s)
	}
	return out, nil
}

// searchQuery reads the conditions of a search.
func searchQuery(p *params, now time.Time) (store.Query, error) {
	q := store.Query{
		Service:     p.text("service"),
		Operation:   p.text("operation"),
		Kind:        kindNumber(p.among("kind", kinds[1:]...)),
		MinDuration: p.duration("min"),
		MaxDuration: p.duration("max"),
		State:       p.among("state", semconv.StateComplete, semconv.StateUnlinked, semconv.StateIncomplete),
		Conditions:  p.attributes(),
		Roots:       p.flag("roots", false),
		Calls:       p.text("calls"),
		Limit:       p.number("limit", 1, 1000, 20),
		After:       p.text("after"),
	}
	switch p.among("status", "error", "ok") {
	case "error":
		q.Status = store.Failed
	case "ok":
		q.Status = store.NotFailed
	}
	switch p.among("sort", "time", "duration", "spans") {
	case "duration":
		q.Sort = store.ByDuration
	case "spans":
		q.Sort = store.BySpans
	}
	if q.Sort != store.ByTime && q.After != "" {
		p.fail("after", q.After, "limit in its place: only traces by time have further pages")
	}
	if q.MaxDuration > 0 && q.MinDuration > q.MaxDuration {
		p.fail("max", q.MaxDuration.String(), "a duration of at least min")
	}
	q.Start, q.End = p.timeRange(now)
	return q, p.done()
}

// timeText is RFC 3339 in UTC, "" for no time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
