package retroextension

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/internal/guard"
	"github.com/tare-trace/tare/span/keep"
)

// handler answers requests. It counts and logs those that it refuses.
type handler struct {
	*http.ServeMux
	coordinator *coordinator
	log         *zap.Logger
	refused     metric.Int64Counter
}

func newHandler(c *coordinator, log *zap.Logger, refused metric.Int64Counter) *handler {
	h := &handler{ServeMux: http.NewServeMux(), coordinator: c, log: guard.Unsampled(log), refused: refused}
	h.HandleFunc("POST "+keep.Path, h.exchange)
	h.HandleFunc("POST "+keep.KeepPath, h.keep)
	return h
}

// exchange takes keeps of an agent, and answers with those of others.
func (h *handler) exchange(w http.ResponseWriter, r *http.Request) {
	body, ok := h.body(w, r)
	if !ok {
		return
	}
	request, err := keep.Decode(body)
	if err != nil {
		h.refuse(w, r, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := h.coordinator.join(request.Instance)
	if err != nil {
		h.refuse(w, r, err.Error(), http.StatusServiceUnavailable)
		return
	}
	limited := h.coordinator.add(request.Instance, request.Keeps)
	var answer keep.Answer
	if request.After != nil {
		answer, err = h.coordinator.poll(r.Context(), a, request.Instance, *request.After, time.Duration(request.Wait)*time.Millisecond)
		switch {
		case errors.Is(err, errTooMany):
			h.refuse(w, r, err.Error(), http.StatusServiceUnavailable)
			return
		case err != nil: // the agent has gone
			return
		}
	}
	answer.Limited = limited
	reply(w, http.StatusOK, answer)
}

// keep takes a trace id from somebody who is no agent.
func (h *handler) keep(w http.ResponseWriter, r *http.Request) {
	body, ok := h.body(w, r)
	if !ok {
		return
	}
	k, err := keep.DecodeKeep(body)
	if err != nil {
		h.refuse(w, r, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, http.StatusAccepted, keep.Answer{Limited: h.coordinator.add("", []keep.Keep{k})})
}

func (h *handler) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	// Browsers ask before they send this type for a page of another site, and get no permission.
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		h.refuse(w, r, "the Content-Type is not application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, keep.MaxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		h.refuse(w, r, "the body is larger than 64 KiB: send fewer keeps at once", http.StatusRequestEntityTooLarge)
	case err != nil:
		h.refuse(w, r, "the body cannot be read", http.StatusBadRequest)
	}
	return body, err == nil
}

// rejected answers what the framework rejects: a request without authentication, or one that is compressed.
func (h *handler) rejected(w http.ResponseWriter, r *http.Request, reason string, status int) {
	if status != http.StatusUnauthorized {
		h.refuse(w, r, reason, status)
		return
	}
	h.note(r, reason, status)
	http.Error(w, http.StatusText(status), status) // the reason may say how close a guess was
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, reason string, status int) {
	h.note(r, reason, status)
	http.Error(w, reason, status)
}

func (h *handler) note(r *http.Request, reason string, status int) {
	h.refused.Add(context.WithoutCancel(r.Context()), 1, metric.WithAttributes(attribute.Int("status", status)))
	h.log.Warn("request refused", zap.String("remote", r.RemoteAddr), zap.String("path", r.URL.Path), zap.Int("status", status), zap.String("reason", reason))
}

func reply(w http.ResponseWriter, status int, answer keep.Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // an agent that has gone asks again
}
