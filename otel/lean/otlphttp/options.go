package otlphttp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/tare-trace/tare/otel/lean/internal/otlpenv"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

// Option configures an [Exporter]. Options win over environment variables, and
// later ones over earlier ones.
type Option func(*config) error

// Compression is how request bodies are compressed.
type Compression int

// The compressions that OTLP receivers must understand.
const (
	NoCompression Compression = iota
	GzipCompression
)

// RetryConfig says how often and for how long a failed export is repeated.
type RetryConfig = retry.Config

// WithEndpoint sets host and port, such as "collector:4318". The port may be
// left away; scheme and path may not be in it: use [WithEndpointURL]. It is
// reached over TLS, unless [WithInsecure] or the environment says otherwise.
func WithEndpoint(hostPort string) Option {
	return func(c *config) error {
		u, err := url.Parse("https://" + hostPort)
		if err != nil || u.Hostname() == "" || u.Host != hostPort {
			return fmt.Errorf("WithEndpoint(%q): want host or host:port; for a URL use WithEndpointURL", hostPort)
		}
		c.url.Scheme, c.url.Host = cmp.Or(c.url.Scheme, "https"), hostPort
		return nil
	}
}

// WithEndpointURL sets the whole URL, such as "https://collector:4318/v1/traces".
// Its path is used as it is: /v1/traces is not added; without a path it is "/".
func WithEndpointURL(endpoint string) Option {
	return func(c *config) error {
		u, err := otlpenv.ParseURL(endpoint)
		if err != nil {
			return fmt.Errorf("WithEndpointURL: %w", err)
		}
		c.setURL(u)
		return nil
	}
}

// WithURLPath sets the path, by default "/v1/traces". It is not percent-encoded.
func WithURLPath(path string) Option {
	return func(c *config) error {
		c.url.Path, c.url.RawPath = strings.TrimSpace(path), ""
		if c.url.Path == "" || c.url.Path == "." {
			c.url.Path = tracesPath
		}
		if c.url.Path[0] != '/' {
			c.url.Path = "/" + c.url.Path
		}
		return nil
	}
}

// WithInsecure uses http instead of https.
func WithInsecure() Option {
	return func(c *config) error {
		c.url.Scheme = "http"
		return nil
	}
}

// WithHeaders sends the headers with every request. They take the place of
// those in the environment. The ones that the protocol itself sets
// (Content-Type and the like) are refused; User-Agent may be set.
func WithHeaders(headers map[string]string) Option {
	return func(c *config) error {
		own := make(map[string]string, len(headers))
		for name, value := range headers {
			if err := otlpenv.CheckHeader(name, value); err != nil {
				return err
			}
			switch textproto.CanonicalMIMEHeaderKey(name) {
			case "Content-Type", "Content-Encoding", "Content-Length", "Transfer-Encoding", "Trailer", "Host", "Connection":
				return fmt.Errorf("header %q is set by the exporter: leave it away", name)
			}
			own[name] = value
		}
		c.headers = own
		return nil
	}
}

// WithTimeout bounds one attempt, from connecting to the last byte of the
// response; 10 s by default, 0 for no bound. The whole export with its retries
// is bounded by its context and by [RetryConfig].
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("WithTimeout(%v): negative; use 0 for no limit", d)
		}
		c.timeout = d
		return nil
	}
}

// WithCompression sets the compression of request bodies: none by default.
func WithCompression(compression Compression) Option {
	return func(c *config) error {
		if compression != NoCompression && compression != GzipCompression {
			return fmt.Errorf("WithCompression(%d): use NoCompression or GzipCompression", compression)
		}
		c.gzip = compression == GzipCompression
		return nil
	}
}

// WithTLSConfig sets the TLS configuration, which takes the place of the
// certificates in the environment. It is copied.
func WithTLSConfig(t *tls.Config) Option {
	return func(c *config) error {
		c.tls = t.Clone()
		return nil
	}
}

// WithTLSClientConfig is [WithTLSConfig] by the official exporter's name.
func WithTLSClientConfig(t *tls.Config) Option { return WithTLSConfig(t) }

// WithProxy sets the function that chooses the proxy of a request, by default
// http.ProxyFromEnvironment. A nil URL means none.
func WithProxy(proxy func(*http.Request) (*url.URL, error)) Option {
	return func(c *config) error {
		if proxy == nil {
			return errors.New("WithProxy(nil): for no proxy at all, pass a function that returns nil")
		}
		c.proxy = proxy
		return nil
	}
}

// WithHTTPClient sends by the client, with its transport, proxy, TLS and
// timeout; those of the other options and of the environment do not count then,
// but [WithTimeout] does. Shutdown leaves the client alone. If its CheckRedirect
// is nil, redirects are treated as the package says. Do not pass a client that
// is traced: exports would make spans that make exports.
func WithHTTPClient(client *http.Client) Option {
	return func(c *config) error {
		if client == nil {
			return errors.New("WithHTTPClient(nil)")
		}
		c.client = client
		return nil
	}
}

// WithRetry sets how failed exports are repeated. By default the first wait is
// 5 s, each further one 1.5 times as long up to 30 s, all ± 50%, for up to a
// minute.
func WithRetry(r RetryConfig) Option {
	return func(c *config) (err error) {
		c.retry, err = r.Validated()
		return err
	}
}
