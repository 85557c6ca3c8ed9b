// Package answer is how the query APIs answer: JSON, errors by status, and the
// limits that every query has. It knows nothing of what is asked.
package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/tare-trace/tare/store"
)

// Func answers a request with v as JSON, or with an error.
type Func func(r *http.Request) (v any, err error)

// Streamer is an answer that writes itself, because it may be too large to be
// put together first.
type Streamer interface {
	// WriteJSON writes one JSON value. An error after the first byte cuts the
	// connection: the peer must not take half an answer for a whole one.
	WriteJSON(ctx context.Context, w http.ResponseWriter) error
}

// Error is an error with its HTTP status.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// BadRequest is what a wrong parameter gets: the text says what is allowed.
func BadRequest(format string, args ...any) error {
	return &Error{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// NotFound is 404.
func NotFound(format string, args ...any) error {
	return &Error{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// TooLarge is what an answer gets that would be larger than its limit.
func TooLarge(format string, args ...any) error {
	return &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf(format, args...)}
}

// Status turns any error of the store or of an API into a status and a text
// for whoever asked. What is 500 is not the asker's doing, and is logged.
func Status(err error) (int, string) {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Status, e.Text
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound, "no span of this trace is stored: it was not sampled, has not arrived yet, or has expired"
	case errors.Is(err, store.ErrInvalid):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, store.ErrClosed):
		return http.StatusServiceUnavailable, "the store is closed: the process is ending"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the query took longer than its time limit: ask for a shorter time range, or name a service"
	case errors.Is(err, context.Canceled):
		return 499, "the client went away" // nginx's number: nobody reads it
	default:
		return http.StatusInternalServerError, err.Error()
	}
}

// Rest serves what no path of the API takes: it only reads, and an unknown path
// is told what there is.
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

// Handler serves f; shape gives an error the form of the API.
func Handler(log *slog.Logger, f Func, shape func(status int, text string) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			status, text := Status(err)
			if status == http.StatusInternalServerError {
				log.Error("query failed", "path", r.URL.Path, "query", r.URL.RawQuery, "error", err)
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

// JSON answers with v. Bytes that are not UTF-8 become U+FFFD.
func JSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // a value that JSON cannot hold: a mistake of ours
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	header(w)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the peer may be gone
}

func header(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
}
