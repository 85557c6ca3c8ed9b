// Package web serves what is in a store to people and programs: the page, the
// JSON API that it uses, and the query API of Jaeger. It only reads. It asks
// nobody who they are: whoever puts it on a network puts authentication in
// front (collector/pageextension does).
package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/api"
	"github.com/tare-trace/tare/web/health"
	"github.com/tare-trace/tare/web/internal/answer"
	"github.com/tare-trace/tare/web/jaeger"
	"github.com/tare-trace/tare/web/page"
)

// Limits of the queries: how long one may take, and how many run at once.
const (
	DefaultTimeout = 15 * time.Second
	atOnce         = 16
)

// Options is what the page shows and who may see it.
type Options struct {
	Store   *store.Store
	Health  []string      // URLs of Prometheus endpoints, of agents and of the collector itself
	Version string        // of tare
	Log     *slog.Logger  // nil: none
	Timeout time.Duration // of a query; 0: DefaultTimeout

	// The Host header must be localhost, a loopback address or one of Hosts:
	// else a foreign page could have its own name point to 127.0.0.1, and read
	// what is served here (DNS rebinding). AnyHost is for addresses that are
	// not loopback, where authentication stands in front.
	Hosts   []string
	AnyHost bool
	// Refused is called for each request that is refused for its Host.
	Refused func(r *http.Request, status int, reason string)
}

// New serves the page at /, the JSON API at /api/v1 and Jaeger's at /api.
// A health URL that is none shows as a source that is down; [health.Check]
// finds it earlier.
func New(o Options) http.Handler {
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
	turns := answer.NewTurns(atOnce)
	mux := http.NewServeMux()
	mux.Handle("/", newAssets(page.Assets))
	mux.Handle(api.Prefix, turns.Limit(api.New(api.Options{
		Store: o.Store, Health: health.New(o.Health), Version: o.Version, Log: o.Log,
	}), o.Timeout, api.Busy))
	mux.Handle(jaeger.Prefix, turns.Limit(jaeger.New(jaeger.Options{Store: o.Store, Log: o.Log}), o.Timeout, jaeger.Busy))

	var h http.Handler = compress(mux)
	if !o.AnyHost {
		h = checkHost(h, o.Hosts, o.Refused)
	}
	return headers(h)
}

// gzipLevel: level 1 takes half the CPU of 6 for JSON that is a tenth larger,
// and the page is mostly on the same host.
const gzipLevel = 1

// headers are on every answer.
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
