package pageextension

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/confmap"

	"github.com/tare-trace/tare/web/health"
)

// Config is the extension's section of a collector's configuration.
type Config struct {
	// ServerConfig has endpoint (default 127.0.0.1:4680), auth, tls and the
	// framework's other settings. An endpoint that is not loopback needs auth and tls.
	ServerConfig confighttp.ServerConfig `mapstructure:",squash"`
	// Store is the component id of the tare_store extension to show.
	Store component.ID `mapstructure:"store"`
	// Health lists the Prometheus endpoints of agents and of this collector that the
	// page's health view reads.
	Health []string `mapstructure:"health"`
	// Hosts are names, besides localhost and loopback addresses, that the Host header of a
	// request may have while the endpoint is loopback, such as those of a proxy in front.
	// Without this check a foreign page could reach this one through a name that points
	// here (DNS rebinding).
	Hosts []string `mapstructure:"hosts"`
	// QueryTimeout is how long one query may take (default 15s, at most 5m).
	QueryTimeout time.Duration `mapstructure:"query_timeout"`
	// Tokens is a file of the tokens with which readers authenticate, and of the services that each may see. It takes the
	// place of auth.
	Tokens string `mapstructure:"tokens"`
	// Audit is where it is written who asked what.
	Audit AuditConfig `mapstructure:"audit"`
	_     struct{}
}

// Unmarshal rejects unknown keys. The framework's ServerConfig, which is squashed into
// this section, would ignore them, so that "tsl" would be accepted in place of "tls".
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	type server confighttp.ServerConfig // without its Unmarshal
	type strict struct {
		ServerConfig server        `mapstructure:",squash"`
		Store        component.ID  `mapstructure:"store"`
		Health       []string      `mapstructure:"health"`
		Hosts        []string      `mapstructure:"hosts"`
		QueryTimeout time.Duration `mapstructure:"query_timeout"`
		Tokens       string        `mapstructure:"tokens"`
		Audit        AuditConfig   `mapstructure:"audit"`
	}
	if err := conf.Unmarshal(&strict{}); err != nil {
		return err
	}
	return conf.Unmarshal(c)
}

// Validate reports values that make no sense or are not allowed.
func (c *Config) Validate() error {
	var errs []error
	if c.Store == (component.ID{}) {
		errs = append(errs, errors.New("`store` is empty: name the extension that holds the store, such as tare_store"))
	}
	for _, u := range c.Health {
		if err := health.Check(u); err != nil {
			errs = append(errs, fmt.Errorf("`health`: %w", err))
		}
	}
	for _, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/: ") {
			errs = append(errs, fmt.Errorf("`hosts`: %q is no name of a host: write it without scheme, port and path", h))
		}
	}
	if c.QueryTimeout <= 0 || c.QueryTimeout > 5*time.Minute {
		errs = append(errs, fmt.Errorf("`query_timeout`: %v is not above 0 and at most 5m", c.QueryTimeout))
	}
	if c.Tokens != "" && c.ServerConfig.Auth.HasValue() {
		errs = append(errs, errors.New("`tokens` and `auth`: both decide who may read; remove one of them"))
	}
	loopback, err := c.loopback()
	if err != nil {
		errs = append(errs, err)
	} else if !loopback {
		errs = append(errs, c.exposed())
	}
	return errors.Join(errs...)
}

// exposed is an error unless readers over the network must authenticate, over TLS.
func (c *Config) exposed() error {
	var missing []string
	if !c.ServerConfig.Auth.HasValue() && c.Tokens == "" {
		missing = append(missing, "`tokens` (a file of tokens) or `auth` (the id of an authenticator extension, such as basicauth or bearertokenauth)")
	}
	if !c.ServerConfig.TLS.HasValue() {
		missing = append(missing, "`tls` (cert_file and key_file)")
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("`endpoint` %s can be reached from other machines, and traces tell much about a system: "+
		"set %s, or listen on 127.0.0.1:4680", c.ServerConfig.NetAddr.Endpoint, strings.Join(missing, " and "))
}

// loopback reports whether only this machine can reach the endpoint. Names other than
// localhost are not looked up, because the answer could differ when listening.
func (c *Config) loopback() (bool, error) {
	switch c.ServerConfig.NetAddr.Transport {
	case confignet.TransportTypeUnix:
		return true, nil
	case confignet.TransportTypeTCP, confignet.TransportTypeTCP4, confignet.TransportTypeTCP6, "":
	default:
		return false, fmt.Errorf("`transport` %q: the page is served over tcp, tcp4, tcp6 or unix", c.ServerConfig.NetAddr.Transport)
	}
	host, _, err := net.SplitHostPort(c.ServerConfig.NetAddr.Endpoint)
	if err != nil {
		return false, fmt.Errorf("`endpoint` %q: use host:port, such as 127.0.0.1:4680", c.ServerConfig.NetAddr.Endpoint)
	}
	if strings.EqualFold(host, "localhost") {
		return true, nil
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback(), nil
}
