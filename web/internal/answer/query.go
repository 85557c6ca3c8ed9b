package answer

import (
	"context"
	"net/http"
	"slices"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/web/waterfall"
)

// maxServices bounds the services that are noted of one query.
const maxServices = 100

// Query is what an API notes of a request while it answers it, for who records what was asked.
type Query struct {
	Route    string   // the pattern, such as "GET /api/v1/traces/{id}"; "" if there is none
	Services []string // that were asked for, or of which spans are in the answer
	Traces   int      // in the answer, or counted in it
}

type noted struct{}

// WithQuery returns a context in which the query is noted.
func WithQuery(ctx context.Context) (context.Context, *Query) {
	q := &Query{}
	return context.WithValue(ctx, noted{}, q), q
}

// Note adds traces and services to what is noted of the context's query.
func Note(ctx context.Context, traces int, services ...string) {
	q, ok := ctx.Value(noted{}).(*Query)
	if !ok {
		return
	}
	q.Traces += traces
	for _, s := range services {
		if len(q.Services) < maxServices && s != "" && !slices.Contains(q.Services, s) {
			q.Services = append(q.Services, s)
		}
	}
}

// NoteTrace notes one trace with its services.
func NoteTrace(ctx context.Context, td ptrace.Traces) {
	Note(ctx, 1)
	for _, rs := range td.ResourceSpans().All() {
		Note(ctx, 0, waterfall.ServiceName(rs.Resource()))
	}
}

func noteRoute(r *http.Request) {
	if q, ok := r.Context().Value(noted{}).(*Query); ok {
		q.Route = r.Pattern
	}
	Note(r.Context(), 0, r.URL.Query()["service"]...)
}

// Mux is a ServeMux that knows its patterns, so that a test can hold what it checks against them.
type Mux struct {
	http.ServeMux
	Patterns []string
}

// Handle is ServeMux's.
func (m *Mux) Handle(pattern string, h http.Handler) {
	m.Patterns = append(m.Patterns, pattern)
	m.ServeMux.Handle(pattern, h)
}

// HandleFunc is ServeMux's.
func (m *Mux) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(f))
}
