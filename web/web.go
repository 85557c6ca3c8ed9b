// Package web serves a store's contents: the page, the JSON API that it uses, and
// Jaeger's query API. It only reads. It does not authenticate: whoever serves it on a
// network has to (collector/pageextension does).
package web

import (
	"log/slog"
	"net/http"
	"net/netip"
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

// DefaultTimeout is how long a query may take, and wait.
const DefaultTimeout = 15 * time.Second

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
	// Client names who sends a request: queries of each client have a queue of their own. nil: [ClientOf].
	Client func(*http.Request) string
	// Busy is called for each query that is refused because others run or memory is short, with the status of its
	// answer: 429, 503, or 499 if the client went away while it waited.
	Busy func(r *http.Request, status int, reason string)
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
	if o.Client == nil {
		o.Client = ClientOf
	}
	// One queue for both: they share the store.
	queue := answer.NewQueue(o.Client)
	queue.Refused = o.Busy
	own := api.New(api.Options{Store: o.Store, Health: health.New(o.Health), Version: o.Version, Log: o.Log})
	jaegers := jaeger.New(jaeger.Options{Store: o.Store, Log: o.Log})
	mux := &answer.Mux{}
	mux.Handle("/", newAssets(page.Assets))
	mux.Handle(api.Prefix, o.audited(queue.Limit(own, o.Timeout, api.Refuse), api.Refuse))
	mux.Handle(jaeger.Prefix, o.audited(queue.Limit(jaegers, o.Timeout, jaeger.Refuse), jaeger.Refuse))
	return o.protected(compress(mux)), slices.Concat(mux.Patterns, own.Patterns, jaegers.Patterns)
}

// ClientOf is the address of who sends a request; of IPv6 its first 64 bits, since one host may have all of these.
func ClientOf(r *http.Request) string {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // a unix socket
		return ""
	}
	bits := 64
	if addr := a.Addr().Unmap(); addr.Is4() {
		bits = 32
	}
	p, err := a.Addr().Unmap().Prefix(bits)
	if err != nil {
		return ""
	}
	return p.String()
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
