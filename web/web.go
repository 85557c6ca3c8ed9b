// Package web serves a store's contents: the page, the JSON API that it uses, and
// Jaeger's query API. It only reads. It does not authenticate: whoever serves it on a
// network has to (collector/pageextension does).
package web

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/api"
	"github.com/tare-trace/tare/web/health"
	"github.com/tare-trace/tare/web/internal/answer"
	"github.com/tare-trace/tare/web/jaeger"
	"github.com/tare-trace/tare/web/page"
)

// Limits of queries: the time of one, and how many run at once.
const (
	DefaultTimeout = 15 * time.Second
	atOnce         = 16
)

// Options of the page and its APIs.
type Options struct {
	Store   *store.Store
	Health  []string      // URLs of Prometheus endpoints, of agents and of the collector itself
	Version string        // of tare
	Log     *slog.Logger  // nil: none
	Timeout time.Duration // of a query; 0: DefaultTimeout

	// The Host header must be localhost, a loopback address or one of Hosts:
	// otherwise a foreign page whose name points to 127.0.0.1 could read what is
	// served here (DNS rebinding). AnyHost is for addresses that are not loopback,
	// where readers authenticate.
	Hosts   []string
	AnyHost bool
	// Audit, unless nil, is called for every request of an API before its answer is sent. If it returns an error, the
	// answer is that the query was refused (503).
	Audit func(Asked) error
	// Refused is called for each request that is refused because of its Host header.
	Refused func(r *http.Request, status int, reason string)
}

// New serves the page at /, the JSON API at /api/v1 and Jaeger's at /api. An invalid
// health URL is shown as a source that is down; [health.Check] finds it earlier.
func New(o Options) http.Handler {
	h, _ := handler(o)
	return h
}

// handler is New, with the patterns of all paths that are served.
func handler(o Options) (h http.Handler, patterns []string) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	compress, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.CompressionLevel(gzipLevel))
	if err != nil {
		panic(err) // the options are constants
	}
	// One limit for both: they share the store.
	turns, memory := answer.NewTurns(atOnce), answer.NewMemory()
	limit := func(next http.Handler, busy func(http.ResponseWriter)) http.Handler {
		return turns.Limit(memory.Limit(next, busy), o.Timeout, busy)
	}
	own := api.New(api.Options{Store: o.Store, Health: health.New(o.Health), Version: o.Version, Log: o.Log})
	jaegers := jaeger.New(jaeger.Options{Store: o.Store, Log: o.Log})
	mux := &answer.Mux{}
	mux.Handle("/", newAssets(page.Assets))
	mux.Handle(api.Prefix, o.audited(limit(own, api.Busy), api.Refuse))
	mux.Handle(jaeger.Prefix, o.audited(limit(jaegers, jaeger.Busy), jaeger.Refuse))
	return o.protected(compress(mux)), slices.Concat(mux.Patterns, own.Patterns, jaegers.Patterns)
}

// protected is what every request passes first.
func (o *Options) protected(h http.Handler) http.Handler {
	if !o.AnyHost {
		h = checkHost(h, o.Hosts, o.Refused)
	}
	return headers(h)
}

// gzipLevel: level 1 takes half the CPU time of level 6 for JSON that is a tenth larger,
// and most readers of the page are on the same host.
const gzipLevel = 1

// headers adds security headers to every response.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
