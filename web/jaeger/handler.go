package jaeger

import (
	"log/slog"
	"net/http"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

// Prefix is the API's path.
const Prefix = "/api/"

// Options of the API.
type Options struct {
	Store *store.Store
	Log   *slog.Logger
}

type api struct{ Options }

// New serves the paths below [Prefix].
func New(o Options) *answer.Mux {
	a := &api{o}
	mux := &answer.Mux{}
	for path, f := range map[string]answer.Func{
		"services": a.services,
		// Names of services may contain slashes, and not every client escapes them.
		"services/{rest...}": a.serviceOperations,
		"operations":         a.operations,
		"traces":             a.search,
		"traces/{id}":        a.trace,
		"dependencies":       a.dependencies,
		"metrics/{kind}":     a.metrics,
	} {
		mux.Handle("GET "+Prefix+path, answer.Handler(o.Log, f, shape))
	}
	mux.HandleFunc(Prefix, answer.Rest(shape, "of Jaeger's API there are services, services/{service}/operations, "+
		"operations, traces, traces/{trace id}, dependencies, metrics/{latencies, calls, errors, minstep}; Tare's own is at /api/v1"))
	return mux
}

// response is the envelope of every response.
type response struct {
	Data   any             `json:"data"`
	Total  int             `json:"total"`
	Limit  int             `json:"limit"`
	Offset int             `json:"offset"`
	Errors []responseError `json:"errors"`
}

type responseError struct {
	Code    int    `json:"code,omitempty"`
	Msg     string `json:"msg"`
	TraceID string `json:"traceID,omitempty"`
}

func shape(status int, text string) any {
	return response{Errors: []responseError{{Code: status, Msg: text}}}
}

// Refuse answers a request that cannot be answered now.
func Refuse(w http.ResponseWriter, status int, text string) {
	answer.JSON(w, status, shape(status, text))
}
