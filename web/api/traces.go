package api

import (
	"encoding/json"
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
	return listed("services", out)
}

// listed is an answer that is a list; left_out is how many elements did not fit.
func listed[T any](name string, list []T) (any, error) {
	fit, left, err := answer.Fit(list)
	return map[string]any{name: fit, "left_out": left}, err
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
	return listed("operations", out)
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
	Services []serviceCount `json:"services"`      // those with the most spans
	More     int            `json:"more_services"` // beyond these
	State    string         `json:"state"`
	Reason   string         `json:"reason"`
	Keep     string         `json:"keep"`
	Retro    string         `json:"retro"` // why it was kept retroactively, with commas between; "": it was not
	Weight   float64        `json:"weight"`
}

type serviceCount struct {
	Name   string `json:"name"`
	Spans  int    `json:"spans"`
	Errors int    `json:"errors"`
}

type page struct {
	Traces    []json.RawMessage `json:"traces"`   // of summary
	LeftOut   int               `json:"left_out"` // traces that did not fit: ask for fewer by limit
	Next      string            `json:"next"`
	Truncated bool              `json:"truncated"`
	Reached   string            `json:"reached"`
	Damaged   int               `json:"damaged"` // chunks of spans and traces that cannot be read, and may be missing here
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
	list := make([]summary, 0, len(found.Traces))
	out := page{Next: found.Next,
		Truncated: found.Truncated, Reached: timeText(found.Reached), Damaged: found.Damaged}
	for _, t := range found.Traces {
		s := summary{
			TraceID: t.TraceID.String(), Service: t.Service, Name: t.Root, Target: t.Target, Start: timeText(t.Start),
			Duration: int64(t.Duration), Spans: t.Spans, Errors: t.Errors, Services: make([]serviceCount, 0, len(t.Services)), More: t.More,
			State: t.State, Reason: t.Reason, Keep: t.Keep, Retro: t.Retro.String(), Weight: finite(t.Weight),
		}
		for _, c := range t.Services {
			s.Services = append(s.Services, serviceCount(c))
			answer.Note(r.Context(), 0, c.Name)
		}
		answer.Note(r.Context(), 1)
		list = append(list, s)
	}
	out.Traces, out.LeftOut, err = answer.Fit(list)
	return out, err
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
		Retro:       p.retro("retro"),
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
