package api

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/health"
	"github.com/tare-trace/tare/web/internal/answer"
)

// Prefix is the API's path.
const Prefix = "/api/v1/"

// Options of the API.
type Options struct {
	Store   *store.Store
	Health  *health.Sources
	Version string // of tare, for /stats
	Log     *slog.Logger
}

type api struct{ Options }

// New serves the paths below [Prefix].
func New(o Options) *answer.Mux {
	a := &api{o}
	mux := &answer.Mux{}
	for path, f := range map[string]answer.Func{
		"services":                 a.services,
		"operations":               a.operations,
		"traces":                   a.search,
		"traces/{id}":              a.trace,
		"traces/{id}/spans/{span}": a.span,
		"traces/{id}/otlp":         a.otlp,
		"overview":                 a.overview,
		"diagnose":                 a.diagnose,
		"map":                      a.serviceMap,
		"latencies":                a.latencies,
		"health":                   a.health,
		"stats":                    a.stats,
	} {
		mux.Handle("GET "+Prefix+path, answer.Handler(o.Log, f, shape))
	}
	mux.HandleFunc(Prefix, answer.Rest(shape, "no such path: there are "+strings.Join([]string{
		"services", "operations", "traces", "traces/{trace id}", "traces/{trace id}/spans/{span id}",
		"traces/{trace id}/otlp", "overview", "diagnose", "map", "latencies", "health", "stats"}, ", ")+" below "+Prefix))
	return mux
}

// shape is the form of an error in this API.
func shape(_ int, text string) any {
	return struct {
		Error string `json:"error"`
	}{text}
}

// Refuse answers a request that cannot be answered now.
func Refuse(w http.ResponseWriter, status int, text string) {
	answer.JSON(w, status, shape(0, text))
}
