package jaeger

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

// listed is a response that is a list, as much of it as fits.
func listed[T any](list []T) (response, error) {
	fit, left, err := answer.Fit(list)
	r := response{Data: fit, Total: len(list)}
	if left > 0 {
		r.Errors = []responseError{{Code: http.StatusRequestEntityTooLarge, Msg: fmt.Sprintf("only %d of %d are here", len(fit), len(list))}}
	}
	return r, err
}

// services is also Grafana's test whether the data source works.
func (a *api) services(r *http.Request) (any, error) {
	found, err := a.Store.Services(r.Context())
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, s := range found {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return listed(names)
}

// serviceOperations is /api/services/{service}/operations: names only.
func (a *api) serviceOperations(r *http.Request) (any, error) {
	name, ok := strings.CutSuffix(r.PathValue("rest"), "/operations")
	if !ok || name == "" {
		return nil, answer.NotFound("use /api/services/{service}/operations")
	}
	answer.Note(r.Context(), 0, name)
	found, err := a.Store.Operations(r.Context(), name)
	if err != nil {
		return nil, err
	}
	// Jaeger unescapes the name once more, and Grafana's older page escapes it twice.
	if plain, err := url.QueryUnescape(name); err == nil && len(found) == 0 && plain != name {
		if found, err = a.Store.Operations(r.Context(), plain); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(found))
	for _, o := range found {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names) // one of each kind
	return listed(names)
}

type operation struct {
	Name string `json:"name"`
	Kind string `json:"spanKind"`
}

// operations is /api/operations?service=&spanKind=.
func (a *api) operations(r *http.Request) (any, error) {
	q := r.URL.Query()
	name, kind := q.Get("service"), strings.ToLower(q.Get("spanKind"))
	if name == "" {
		return nil, answer.BadRequest("parameter 'service' is required")
	}
	found, err := a.Store.Operations(r.Context(), name)
	if err != nil {
		return nil, err
	}
	out := make([]operation, 0, len(found))
	for _, o := range found {
		if k := kindName(o.Kind); kind == "" || k == kind {
			out = append(out, operation{o.Name, k})
		}
	}
	return listed(out)
}

type dependency struct {
	Parent    string `json:"parent"`
	Child     string `json:"child"`
	CallCount uint64 `json:"callCount"`
}

// dependencies is /api/dependencies?endTs=&lookback=, both in milliseconds: the calls
// between services, estimated from the sampled ones.
func (a *api) dependencies(r *http.Request) (any, error) {
	p := newParams(r)
	end := p.time("endTs", time.Millisecond, time.Now().Add(time.Millisecond))
	lookback := p.milliseconds("lookback", 24*time.Hour)
	service := p.text("service")
	if p.err != nil {
		return nil, p.err
	}
	m, err := a.Store.Map(r.Context(), end.Add(-lookback), end)
	if err != nil {
		return nil, err
	}
	out, err := listed(links(m, service))
	out.Total = 0 // as Jaeger has it
	return out, err
}

func links(m store.Map, service string) []dependency {
	calls := map[[2]string]float64{}
	for _, e := range m.Edges {
		if service == "" || service == e.From || service == e.To {
			calls[[2]string{e.From, e.To}] += e.Weight
		}
	}
	out := make([]dependency, 0, len(calls))
	for k, n := range calls {
		if !(n >= 0 && n < 1<<53) { // NaN, too
			n = 0
		}
		out = append(out, dependency{k[0], k[1], uint64(math.Round(n))})
	}
	slices.SortFunc(out, func(x, y dependency) int {
		if c := strings.Compare(x.Parent, y.Parent); c != 0 {
			return c
		}
		return strings.Compare(x.Child, y.Child)
	})
	return out
}
