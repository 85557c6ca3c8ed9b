package retroextension

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/confmap"

	"github.com/tare-trace/tare/span/keep"
)

// maxTraces is the highest traces_per_second. Above maxRing/60 a keep is passed on for less than a minute.
const maxTraces = 10_000

// Config is the extension's section of a collector's configuration.
type Config struct {
	// ServerConfig has endpoint (default 127.0.0.1:4319), auth, tls and the framework's other settings. `tare
	// collector` refuses an endpoint that is neither loopback nor has TLS, as it does of receivers.
	ServerConfig confighttp.ServerConfig `mapstructure:",squash"`
	// TracesPerSecond bounds the traces that all agents together keep.
	TracesPerSecond int `mapstructure:"traces_per_second"`
	_               struct{}
}

// Unmarshal rejects unknown keys, which the framework's ServerConfig would ignore: "tsl" in place of "tls".
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	type server confighttp.ServerConfig // without its Unmarshal
	type strict struct {
		ServerConfig    server `mapstructure:",squash"`
		TracesPerSecond int    `mapstructure:"traces_per_second"`
	}
	if err := conf.Unmarshal(&strict{}); err != nil {
		return err
	}
	return conf.Unmarshal(c)
}

// Validate reports values that make no sense.
func (c *Config) Validate() error {
	var errs []error
	if c.TracesPerSecond < 1 || c.TracesPerSecond > maxTraces {
		errs = append(errs, fmt.Errorf("`traces_per_second`: %d is not from 1 to %d", c.TracesPerSecond, maxTraces))
	}
	for _, of := range []struct {
		key   string
		value time.Duration
	}{{"read_timeout", c.ServerConfig.ReadTimeout}, {"write_timeout", c.ServerConfig.WriteTimeout}} {
		if of.value > 0 && of.value < 2*keep.MaxWait {
			errs = append(errs, fmt.Errorf("`%s`: %v is too short for requests that wait %v: set %v or more", of.key, of.value, keep.MaxWait, 2*keep.MaxWait))
		}
	}
	return errors.Join(errs...)
}
