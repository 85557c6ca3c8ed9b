package otlpgrpc

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/tare-trace/tare/otel/lean/internal/otlpenv"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
	"github.com/tare-trace/tare/otel/lean/internal/useragent"
)

type config struct {
	target      string // as grpc.NewClient wants it
	method      string // full name
	insecure    bool
	secure      bool                             // the environment asks for TLS in so many words
	credentials credentials.TransportCredentials // win over insecure; nil: by insecure
	headers     map[string]string
	timeout     time.Duration // of an export with its retries; 0: none
	gzip        bool
	dial        []grpc.DialOption
	conn        *grpc.ClientConn // the user's
	retry       retry.Config
}

// newConfig: defaults, then the environment, then the options in their order.
func newConfig(opts []Option) (*config, error) {
	c := &config{method: method, timeout: 10 * time.Second, retry: retry.Default}
	if err := c.environment(); err != nil {
		return nil, fmt.Errorf("otlpgrpc: %w", err)
	}
	var errs []error
	for _, option := range opts {
		if err := option(c); err != nil {
			errs = append(errs, fmt.Errorf("otlpgrpc: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if c.target == "" { // nobody named an endpoint: OTLP's own is plain
		c.target, c.insecure = "localhost:4317", !c.secure
	}
	return c, nil
}

func (c *config) environment() error {
	env, err := otlpenv.Read()
	if err != nil {
		return err
	}
	if v := env.Endpoint; v != nil {
		if c.target, c.insecure, err = parseTarget(v.Value); err != nil {
			return v.Errorf("%w", err)
		}
	}
	if env.Insecure != nil {
		c.insecure, c.secure = *env.Insecure, !*env.Insecure
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
	if env.TLS != nil {
		c.credentials = credentials.NewTLS(env.TLS)
	}
	return nil
}

// parseTarget reads an endpoint of the environment: an http or https URL, or
// what gRPC calls a target (https://github.com/grpc/grpc/blob/master/doc/naming.md).
func parseTarget(endpoint string) (target string, insecure bool, err error) {
	scheme, rest, _ := strings.Cut(endpoint, ":")
	switch strings.ToLower(scheme) {
	case "http", "https":
		u, err := otlpenv.ParseURL(endpoint)
		if err != nil {
			return "", false, err
		}
		return u.Host, u.Scheme == "http", nil
	case "unix":
		return endpoint, true, nil
	}
	if rest == "" || strings.ContainsAny(endpoint, " \t\r\n@") {
		return "", false, errors.New("not an endpoint: the form is http://localhost:4317, https://host or host:port")
	}
	if u, err := url.Parse(endpoint); err == nil && u.Scheme == "" && u.Host != "" {
		return path.Join(u.Host, u.Path), false, nil // "//host:port"
	}
	if strings.HasPrefix(rest, "//") && resolver.Get(scheme) == nil {
		return "", false, fmt.Errorf("the scheme %q is not known: use http, https, or one of gRPC's", scheme)
	}
	if _, port, err := net.SplitHostPort(endpoint); err == nil && resolver.Get(scheme) == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", false, errors.New("the port is not a number from 1 to 65535")
		}
	}
	return endpoint, false, nil
}

// dialOptions puts the user's last, so that they win.
func (c *config) dialOptions() []grpc.DialOption {
	creds := c.credentials
	if creds == nil {
		if creds = credentials.NewTLS(nil); c.insecure {
			creds = insecure.NewCredentials()
		}
	}
	return append([]grpc.DialOption{grpc.WithUserAgent(useragent.String()), grpc.WithTransportCredentials(creds)}, c.dial...)
}
