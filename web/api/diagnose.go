package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tare-trace/tare/web/rootcause"
)

// diagnose says what makes the slowest traces slow, of those that a search finds.
func (a *api) diagnose(r *http.Request) (any, error) {
	p := newParams(r)
	share := rootcause.Share
	if v := p.text("share"); v != "" {
		var err error
		if share, err = strconv.ParseFloat(v, 64); err != nil || !(share > 0 && share <= rootcause.MaxShare) {
			p.fail("share", v, "a number above 0, up to "+strconv.FormatFloat(rootcause.MaxShare, 'g', -1, 64))
		}
	}
	traces := p.number("traces", 1, rootcause.MaxTraces, rootcause.DefaultTraces)
	for name, why := range map[string]string{
		"min":   "no condition on the duration: slow traces are compared with normal ones",
		"max":   "no condition on the duration: slow traces are compared with normal ones",
		"sort":  "nothing in its place: the newest traces are read",
		"limit": "traces in its place", "after": "end in its place",
	} {
		if v := p.text(name); v != "" {
			p.fail(name, v, why)
		}
	}
	q, err := searchQuery(p, time.Now())
	if err != nil {
		return nil, err
	}
	// Half of the time limit is for reading; then the newest traces have to do.
	var until time.Time
	if deadline, ok := r.Context().Deadline(); ok {
		until = time.Now().Add(time.Until(deadline) / 2)
	}
	set := rootcause.NewSet()
	if err := set.Read(r.Context(), a.Store, q, traces, until); err != nil {
		return nil, err
	}
	return set.Diagnose(share), r.Context().Err()
}
