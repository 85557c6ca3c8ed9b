package otlpgrpc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tare-trace/tare/otel/lean/internal/otlpenv"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

// Option configures an [Exporter]. Options win over environment variables, and
// later ones over earlier ones.
type Option func(*config) error

// Compression is how requests are compressed.
type Compression int

// The compressions that OTLP receivers must understand.
const (
	NoCompression Compression = iota
	GzipCompression
)

// RetryConfig says how often and for how long a failed export is repeated.
type RetryConfig = retry.Config

// WithEndpoint sets host and port, such as "collector:4317", or another gRPC
// target, such as "dns:///collector:4317". For a URL use [WithEndpointURL].
func WithEndpoint(target string) Option {
	return func(c *config) error {
		if scheme, _, ok := strings.Cut(target, "://"); target == "" || ok && (scheme == "http" || scheme == "https") {
			return fmt.Errorf("WithEndpoint(%q): want host:port; for a URL use WithEndpointURL", target)
		}
		c.target = target
		return nil
	}
}

// WithEndpointURL sets host and port of an http or https URL, such as
// "https://collector:4317". Its scheme decides about TLS; a path is ignored.
func WithEndpointURL(endpoint string) Option {
	return func(c *config) error {
		var u *url.URL
		u, err := otlpenv.ParseURL(endpoint)
		if err != nil {
			return fmt.Errorf("WithEndpointURL: %w", err)
		}
		c.target, c.insecure = u.Host, u.Scheme == "http"
		return nil
	}
}

// WithInsecure connects without TLS, unless certificates are configured.
func WithInsecure() Option {
	return func(c *config) error {
		c.insecure = true
		return nil
	}
}

// WithTLSCredentials sets the credentials of the connection. They win over
// [WithInsecure] and over a URL with http.
func WithTLSCredentials(creds credentials.TransportCredentials) Option {
	return func(c *config) error {
		if creds == nil {
			return errors.New("WithTLSCredentials(nil)")
		}
		c.credentials = creds
		return nil
	}
}

// WithTLSConfig is [WithTLSCredentials] with a TLS configuration, which is copied.
func WithTLSConfig(t *tls.Config) Option { return WithTLSCredentials(credentials.NewTLS(t)) }

// WithHeaders sends the headers as metadata with every call. They take the place
// of those in the environment. gRPC's own names ("grpc-…", and what begins with
// a colon) are refused.
func WithHeaders(headers map[string]string) Option {
	return func(c *config) error {
		own := make(map[string]string, len(headers))
		for name, value := range headers {
			key := strings.ToLower(name)
			if err := otlpenv.CheckHeader(key, value); err != nil {
				return err
			}
			// Narrower than HTTP's: gRPC over HTTP/2, "Custom-Metadata".
			if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
				return fmt.Errorf("%q cannot be the name of gRPC metadata: use letters, digits, \"-\", \"_\" and \".\"", name)
			}
			if strings.HasPrefix(key, "grpc-") || key == "content-type" || key == "te" {
				return fmt.Errorf("header %q is set by gRPC: leave it away", name)
			}
			if !strings.HasSuffix(key, "-bin") && strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
				return fmt.Errorf("the value of header %q is not printable ASCII, which gRPC metadata must be", name)
			}
			own[key] = value
		}
		c.headers = own
		return nil
	}
}

// WithTimeout bounds an export with all its retries, as does its context; 10 s
// by default, 0 for no bound but the context's and [RetryConfig]'s.
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("WithTimeout(%v): negative; use 0 for no limit", d)
		}
		c.timeout = d
		return nil
	}
}

// WithCompression sets the compression of requests: none by default.
func WithCompression(compression Compression) Option {
	return func(c *config) error {
		if compression != NoCompression && compression != GzipCompression {
			return fmt.Errorf("WithCompression(%d): use NoCompression or GzipCompression", compression)
		}
		c.gzip = compression == GzipCompression
		return nil
	}
}

// WithCompressor is [WithCompression] by the official exporter's name: "gzip".
func WithCompressor(name string) Option {
	if name == "gzip" {
		return WithCompression(GzipCompression)
	}
	return func(*config) error { return fmt.Errorf("WithCompressor(%q): only gzip is supported", name) }
}

// WithDialOption adds options of the connection, which win over the exporter's.
func WithDialOption(opts ...grpc.DialOption) Option {
	return func(c *config) error {
		c.dial = append(c.dial, opts...)
		return nil
	}
}

// WithGRPCConn sends over the connection, whatever the environment and other
// options say about target, TLS and dialling. Shutdown does not close it.
func WithGRPCConn(conn *grpc.ClientConn) Option {
	return func(c *config) error {
		if conn == nil {
			return errors.New("WithGRPCConn(nil)")
		}
		c.conn = conn
		return nil
	}
}

// WithRetry sets how failed exports are repeated. By default the first wait is
// 5 s, each further one 1.5 times as long up to 30 s, all ± 50%, for up to a
// minute; [WithTimeout] ends it earlier.
func WithRetry(r RetryConfig) Option {
	return func(c *config) (err error) {
		c.retry, err = r.Validated()
		return err
	}
}

// WithMethod calls another method than that of the trace service, by its full name, such as
// "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": the requests of OTLP's other signals
// have the same form of answer, and [Exporter.Export] sends whatever it is given.
func WithMethod(name string) Option {
	return func(c *config) error {
		if service, method, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/"); !ok || service == "" || method == "" || name[0] != '/' {
			return fmt.Errorf("WithMethod(%q): want /package.Service/Method", name)
		}
		c.method = name
		return nil
	}
}
