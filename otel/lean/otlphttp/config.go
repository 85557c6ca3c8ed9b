package otlphttp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tare-trace/tare/otel/lean/internal/otlpenv"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

const tracesPath = "/v1/traces"

type config struct {
	url     url.URL // scheme, host and path
	headers map[string]string
	timeout time.Duration // of one attempt; 0: none
	gzip    bool
	tls     *tls.Config
	proxy   func(*http.Request) (*url.URL, error)
	client  *http.Client
	retry   retry.Config
}

// newConfig: defaults, then the environment, then the options in their order.
func newConfig(opts []Option) (*config, error) {
	c := &config{
		url:     url.URL{Host: "localhost:4318", Path: tracesPath},
		timeout: 10 * time.Second,
		proxy:   http.ProxyFromEnvironment,
		retry:   retry.Default,
	}
	if err := c.environment(); err != nil {
		return nil, fmt.Errorf("otlphttp: %w", err)
	}
	var errs []error
	for _, option := range opts {
		if err := option(c); err != nil {
			errs = append(errs, fmt.Errorf("otlphttp: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if c.url.Scheme == "" { // nobody named an endpoint: OTLP's own is plain
		c.url.Scheme = "http"
		if c.tls != nil {
			c.url.Scheme = "https"
		}
	}
	if c.url.Scheme == "http" && c.tls != nil && c.client == nil {
		return nil, errors.New("otlphttp: certificates are configured, but the endpoint is http: use https, or leave the certificates away")
	}
	return c, nil
}

// Credentials returns the headers and the TLS configuration that the
// environment names, for requests of another kind to the receiver of spans.
// Each is nil if no variable is set.
func Credentials() (headers map[string]string, certificates *tls.Config, err error) {
	env, err := otlpenv.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("otlphttp: %w", err)
	}
	return env.Headers, env.TLS, nil
}

func (c *config) environment() error {
	env, err := otlpenv.Read()
	if err != nil {
		return err
	}
	if v := env.Endpoint; v != nil {
		u, err := otlpenv.ParseURL(v.Value)
		if err != nil {
			return v.Errorf("%w", err)
		}
		c.setURL(u)
		if !v.Traces {
			c.url = *c.url.JoinPath(tracesPath)
		}
	}
	if env.Insecure != nil {
		c.url.Scheme = "https"
		if *env.Insecure {
			c.url.Scheme = "http"
		}
	}
	if env.Headers != nil {
		if err := WithHeaders(env.Headers)(c); err != nil {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS or OTEL_EXPORTER_OTLP_TRACES_HEADERS: %w", err)
		}
	}
	if env.Timeout != nil {
		c.timeout = *env.Timeout
	}
	if env.Gzip != nil {
		c.gzip = *env.Gzip
	}
	c.tls = env.TLS
	return nil
}

// setURL uses u as it is; a URL without a path means the root (OTLP exporter
// specification, "Endpoint URLs for OTLP/HTTP").
func (c *config) setURL(u *url.URL) {
	c.url = *u
	if c.url.Path == "" {
		c.url.Path = "/"
	}
}
