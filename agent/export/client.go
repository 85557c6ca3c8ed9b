package export

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// The protocols, by their names in OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	GRPC         = "grpc"
	HTTPProtobuf = "http/protobuf"
)

// ErrProtocol is returned for a protocol that is not supported. OTLP/JSON is
// one: spans are encoded once, as protobuf, and the client would send none of
// them as JSON.
var ErrProtocol = errors.New("unsupported OTLP protocol")

// minConnectTimeout is grpc's own default.
const minConnectTimeout = 20 * time.Second

// newClient makes the official client. Its retries have no end of their own:
// the sender ends them with the context of the batch.
func newClient(cfg Config) (otlptrace.Client, error) {
	endpoint, err := endpointURL(cfg)
	if err != nil {
		return nil, err
	}
	switch cfg.Protocol {
	case GRPC:
		opts := []otlptracegrpc.Option{
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
				Enabled: true, InitialInterval: cfg.Retry.Initial, MaxInterval: cfg.Retry.Max,
			}),
			// By default a connection that failed often is tried again after
			// two minutes only, whatever the retries of requests do.
			otlptracegrpc.WithDialOption(grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: cfg.Retry.Initial, MaxDelay: cfg.Retry.Max,
					Multiplier: backoff.DefaultConfig.Multiplier, Jitter: backoff.DefaultConfig.Jitter,
				},
				MinConnectTimeout: minConnectTimeout,
			})),
		}
		if endpoint != "" {
			opts = append(opts, otlptracegrpc.WithEndpointURL(endpoint))
		}
		return otlptracegrpc.NewClient(opts...), nil
	case HTTPProtobuf:
		opts := []otlptracehttp.Option{
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
				Enabled: true, InitialInterval: cfg.Retry.Initial, MaxInterval: cfg.Retry.Max,
			}),
			// The client would take http/json from the environment.
			otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		}
		if endpoint != "" {
			opts = append(opts, otlptracehttp.WithEndpointURL(endpoint))
		}
		return otlptracehttp.NewClient(opts...), nil
	default:
		return nil, fmt.Errorf("%w: %q is neither %q nor %q", ErrProtocol, cfg.Protocol, GRPC, HTTPProtobuf)
	}
}

// endpointURL is checked here because the clients fall back to localhost when
// it is wrong.
func endpointURL(cfg Config) (string, error) {
	if cfg.Endpoint == "" {
		return "", nil
	}
	u, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return "", fmt.Errorf("OTLP endpoint: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("OTLP endpoint %q: want http://host:port or https://host:port", cfg.Endpoint)
	}
	if cfg.Protocol == HTTPProtobuf && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}
