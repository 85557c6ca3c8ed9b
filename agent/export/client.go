package export

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// The protocols, by their names in OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	GRPC         = "grpc"
	HTTPProtobuf = "http/protobuf"
)

// ErrProtocol is returned for a protocol that is not supported. OTLP/JSON is
// one: spans are encoded once, as protobuf.
var ErrProtocol = errors.New("unsupported OTLP protocol")

// minConnectTimeout is grpc's own default.
const minConnectTimeout = 20 * time.Second

// client sends one ExportTraceServiceRequest, and repeats it while that makes
// sense: an exporter of otel/lean.
type client interface {
	Export(ctx context.Context, request []byte, spans int) (rejected int, err error)
	Shutdown(ctx context.Context) error
	Endpoint() string
}

// discards takes everything.
type discards struct{}

func (discards) Export(context.Context, []byte, int) (rejected int, err error) { return 0, nil }
func (discards) Shutdown(context.Context) error                                { return nil }
func (discards) Endpoint() string                                              { return "" }

// newClient makes a client whose retries have no end of their own: the sender
// ends them with the context of the batch. Or one that tries each request once.
func newClient(cfg Config, retry bool) (client, error) {
	if cfg.Discard {
		return discards{}, nil
	}
	endpoint, err := endpointURL(cfg)
	if err != nil {
		return nil, err
	}
	retries := otlphttp.RetryConfig{Enabled: retry, InitialInterval: cfg.Retry.Initial, MaxInterval: cfg.Retry.Max}
	switch cfg.Protocol {
	case GRPC:
		opts := []otlpgrpc.Option{
			otlpgrpc.WithRetry(retries),
			// By default a connection that failed often is tried again after
			// two minutes only, whatever the retries of requests do.
			otlpgrpc.WithDialOption(grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: cfg.Retry.Initial, MaxDelay: cfg.Retry.Max,
					Multiplier: backoff.DefaultConfig.Multiplier, Jitter: backoff.DefaultConfig.Jitter,
				},
				MinConnectTimeout: minConnectTimeout,
			})),
		}
		if endpoint != "" {
			opts = append(opts, otlpgrpc.WithEndpointURL(endpoint))
		}
		return otlpgrpc.New(opts...)
	case HTTPProtobuf:
		opts := []otlphttp.Option{otlphttp.WithRetry(retries)}
		if endpoint != "" {
			opts = append(opts, otlphttp.WithEndpointURL(endpoint))
		}
		return otlphttp.New(opts...)
	default:
		return nil, fmt.Errorf("%w: %q is neither %q nor %q", ErrProtocol, cfg.Protocol, GRPC, HTTPProtobuf)
	}
}

// endpointURL adds the path that OTLP/HTTP wants.
func endpointURL(cfg Config) (string, error) {
	if cfg.Endpoint == "" {
		return "", nil
	}
	u, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return "", fmt.Errorf("OTLP endpoint: %w", err)
	}
	if cfg.Protocol == HTTPProtobuf && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}
