// Package answer has what the query APIs share: JSON responses, errors with their status,
// and limits. It knows nothing about the queries.
package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/tare-trace/tare/store"
)

// Func answers a request with v as JSON, or with an error.
type Func func(r *http.Request) (v any, err error)

// Streamer is a response that writes itself, because it may be too large to build in
// memory first.
type Streamer interface {
	// WriteJSON writes one JSON value. An error closes the connection, so that the
	// peer does not take half a response for a whole one.
	WriteJSON(ctx context.Context, w http.ResponseWriter) error
}

// Error is an error with its HTTP status.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// BadRequest reports a wrong parameter; the text says what is allowed.
func BadRequest(format string, args ...any) error {
	return &Error{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// NotFound is status 404.
func NotFound(format string, args ...any) error {
	return &Error{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// TooLarge reports a response that would exceed its limit.
func TooLarge(format string, args ...any) error {
	return &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf(format, args...)}
}

// Status returns the HTTP status and the text for an error of the store or of an API. 500
// means a fault of the server, which is logged.
func Status(err error) (int, string) {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Status, e.Text
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound, "no span of this trace is stored: it was not sampled, has not arrived yet, or has expired"
	case errors.Is(err, store.ErrCorrupt):
		return http.StatusInternalServerError, "damaged: what was asked for cannot be read as it was stored; `tare store check` says what is damaged: " + err.Error()
	case errors.Is(err, store.ErrInvalid):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, store.ErrClosed):
		return http.StatusServiceUnavailable, "the store is closed: the process is ending"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the query took longer than its time limit: ask for a shorter time range, or name a service"
	case errors.Is(err, context.Canceled):
		return 499, "the client went away" // nginx's status; nobody reads it
	default:
		return http.StatusInternalServerError, err.Error()
	}
}

// Rest serves all other requests of an API: 405 for methods that write, and for an
// unknown path a 404 that lists the known ones.
func Rest(shape func(status int, text string) any, known string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			JSON(w, http.StatusMethodNotAllowed, shape(http.StatusMethodNotAllowed, "the API only reads: GET"))
			return
		}
		JSON(w, http.StatusNotFound, shape(http.StatusNotFound, known))
	}
}

// Handler serves f; shape gives errors the form of the API.
func Handler(log *slog.Logger, f Func, shape func(status int, text string) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noteRoute(r)
		v, err := f(r)
		if err != nil {
			status, text := Status(err)
			if status == http.StatusInternalServerError {
				log.Error("query failed", "path", r.URL.Path, "query", r.URL.RawQuery, "error", err)
				if store.ScopeOf(r.Context()) != nil { // the error may be of what the reader may not see
					text = "the query failed: the log of this store has the reason"
				}
			}
			if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
			}
			JSON(w, status, shape(status, text))
			return
		}
		if s, ok := v.(Streamer); ok {
			header(w)
			if err := s.WriteJSON(r.Context(), w); err != nil {
				if r.Context().Err() == nil {
					log.Error("answer broke off", "path", r.URL.Path, "error", err)
				}
				panic(http.ErrAbortHandler)
			}
			return
		}
		JSON(w, http.StatusOK, v)
	})
}

// JSON writes v as the response. Bytes that are not UTF-8 become U+FFFD.
func JSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // a value that JSON cannot represent: a bug
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	header(w)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the peer may be gone
}

// MaxList is how long the list of an answer may become, in bytes of JSON.
const MaxList = 8 << 20

// Fit returns the first elements of a list as JSON, as many as fit into an answer, and how many are left out.
func Fit[T any](list []T) (fit []json.RawMessage, left int, err error) {
	fit = make([]json.RawMessage, 0, len(list))
	size := 0
	for i := range list {
		b, err := json.Marshal(&list[i])
		if err != nil {
			return nil, 0, err
		}
		if size += len(b); size > MaxList {
			return fit, len(list) - i, nil
		}
		fit = append(fit, b)
	}
	return fit, 0, nil
}

func header(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
}
