package api

import (
	"net/http"
	"time"

	"github.com/tare-trace/tare/web/internal/answer"
)

type overview struct {
	Traces uint64  `json:"traces"` // stored ones
	Errors uint64  `json:"errors"` // of these, with a failed span
	Weight float64 `json:"weight"` // how many they stand for
	// The time is divided into columns of equal width; a cell is the traces of one column
	// that took from low to high.
	Start     string `json:"start"` // RFC 3339
	End       string `json:"end"`
	Columns   int    `json:"columns"`
	Cells     []cell `json:"cells"`
	Truncated bool   `json:"truncated"` // the numbers are lower bounds of what began before reached
	Reached   string `json:"reached"`
	Damaged   int    `json:"damaged"` // chunks of spans that cannot be read, and are not counted
}

type cell struct {
	Column int    `json:"column"`
	Low    int64  `json:"low_ns"`
	High   int64  `json:"high_ns"`
	Traces uint64 `json:"traces"`
	Errors uint64 `json:"errors"`
}

func (a *api) overview(r *http.Request) (any, error) {
	p := newParams(r)
	columns := p.number("columns", 1, 500, 60)
	for name, why := range map[string]string{"limit": "nothing: all traces are counted", "after": "end in its place", "sort": "nothing: all traces are counted"} {
		if v := p.text(name); v != "" {
			p.fail(name, v, why)
		}
	}
	q, err := searchQuery(p, time.Now())
	if err != nil {
		return nil, err
	}
	found, err := a.Store.Overview(r.Context(), q, columns)
	if err != nil {
		return nil, err
	}
	answer.Note(r.Context(), int(min(found.Traces, 1<<31-1))) //nolint:gosec // bounded
	out := overview{found.Traces, found.Errors, finite(found.Weight), timeText(found.Start), timeText(found.End), found.Columns,
		make([]cell, 0, len(found.Cells)), found.Truncated, timeText(found.Reached), found.Damaged}
	for _, c := range found.Cells {
		out.Cells = append(out.Cells, cell{c.Column, int64(c.Low), int64(c.High), c.Traces, c.Errors})
	}
	return out, nil
}
