package pageextension

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/internal/guard"
)

// refusals logs and counts every refused request.
type refusals struct {
	log       *zap.Logger
	count     metric.Int64Counter
	challenge string // for WWW-Authenticate
	audit     *audit // nil: none
}

func newRefusals(set component.TelemetrySettings, c *Config) (*refusals, error) {
	count, err := set.MeterProvider.Meter("github.com/tare-trace/tare/collector/pageextension").Int64Counter(
		"tare_page_refused_requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests for the page or its APIs that were refused, by HTTP status."))
	if err != nil {
		return nil, fmt.Errorf("make the counter of refused requests: %w", err)
	}
	return &refusals{log: guard.Unsampled(set.Logger), count: count, challenge: challenge(c)}, nil
}

// challenge makes a browser ask for a password (RFC 7617), or a program for a token (RFC
// 6750). The type's name is all that the framework says about an authenticator.
func challenge(c *Config) string {
	if c.Tokens != "" {
		return readerHeader
	}
	if !c.ServerConfig.Auth.HasValue() {
		return ""
	}
	if strings.Contains(c.ServerConfig.Auth.Get().Config.AuthenticatorID.Type().String(), "basic") {
		return `Basic realm="tare", charset="UTF-8"`
	}
	return `Bearer realm="tare"`
}

func (s *refusals) refused(r *http.Request, status int, reason string) {
	s.count.Add(context.WithoutCancel(r.Context()), 1, metric.WithAttributes(attribute.Int("status", status)))
	if s.audit != nil {
		s.audit.refused(r, status, reason)
	}
	// Without the query, which shows what somebody searched for.
	s.log.Warn("request refused", zap.String("remote", r.RemoteAddr), zap.String("method", r.Method),
		zap.String("path", r.URL.Path), zap.Int("status", status), zap.String("reason", reason))
}

// busy counts and logs a query that was refused since others run, or memory is short. Who went away while it waited is
// only counted. The audit log has its answer.
func (s *refusals) busy(r *http.Request, status int, reason string) {
	s.count.Add(context.WithoutCancel(r.Context()), 1, metric.WithAttributes(attribute.Int("status", status)))
	if status != 499 {
		s.log.Warn("query refused", zap.String("remote", r.RemoteAddr), zap.String("path", r.URL.Path), zap.Int("status", status), zap.String("reason", reason))
	}
}

// unauthenticated writes the response when an authenticator, or tokens, refuse a request, or when a
// body cannot be decompressed.
func (s *refusals) unauthenticated(w http.ResponseWriter, r *http.Request, message string, status int) {
	s.refused(r, status, message)
	if status == http.StatusUnauthorized && s.challenge != "" {
		w.Header().Set("WWW-Authenticate", s.challenge)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, http.StatusText(status), status) // the message may say how close a guess was
}
