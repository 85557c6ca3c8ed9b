package otlphttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/tare-trace/tare/otel/lean/internal/redial"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
	"github.com/tare-trace/tare/otel/lean/internal/useragent"
)

// newTransport: a transport per exporter, so that nothing that replaces or
// wraps http.DefaultTransport traces exports, and so that Shutdown closes the
// exporter's connections only. The limits are those of http.DefaultTransport.
// A receiver that cannot be connected to is left alone for a while, however
// often there is something to send, but not for longer than half of the wait
// that a user's RetryConfig asks for.
func newTransport(c *config) *http.Transport {
	pause := redial.Pause
	if c.retry.Enabled {
		pause = min(pause, c.retry.InitialInterval/2)
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 c.proxy,
		DialContext:           redial.After(pause, dialer.DialContext),
		TLSClientConfig:       c.tls,
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

func newHeader(c *config) http.Header {
	header := http.Header{"User-Agent": {useragent.String()}}
	for name, value := range c.headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", contentProtobuf)
	if c.gzip {
		header.Set("Content-Encoding", "gzip")
	}
	return header
}

// checkRedirect follows what keeps the spans and goes where the user sends
// them: see the package comment.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.Method != http.MethodPost ||
		next.URL.Hostname() != first.Hostname() ||
		first.Scheme == "https" && next.URL.Scheme != "https" {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return &permanentError{errors.New("10 redirects in a row")}
	}
	return nil
}

// permanentError is a failure to send that another attempt would meet again.
type permanentError struct{ error }

// sendError says whether a request that got no response is worth repeating. The
// OTLP specification wants a client to retry when it cannot connect or is
// disconnected, and errors of networks are of many types; so everything is
// retried but what is known to be a matter of configuration.
func sendError(ctx context.Context, err error) error {
	var timeout *timeoutError
	if cause := context.Cause(ctx); errors.As(cause, &timeout) {
		return &retry.Transient{Err: fmt.Errorf("%w: %w", timeout, err)}
	}
	var (
		permanent   *permanentError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		record      tls.RecordHeaderError
		operation   *net.OpError
	)
	switch {
	case errors.As(err, &permanent), errors.As(err, &certificate), errors.As(err, &authority),
		errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return err
	case errors.As(err, &operation) && (operation.Op == "remote error" || operation.Op == "local error"):
		return err // a TLS alert: they do not agree on versions or certificates
	}
	return &retry.Transient{Err: err}
}
