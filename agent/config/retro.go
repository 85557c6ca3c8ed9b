package config

import (
	"math"
	"math/bits"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Retro is retroactive sampling: requests that are not sampled have records for a while, and those of failed and slow ones are kept.
type Retro struct {
	Memory    int           // bytes, a power of two; 0: it is off
	Share     float64       // of all requests, of those that are sampled or remembered, 0 to 1
	Delay     time.Duration // until the records are read
	Slow      time.Duration // a request that enters here and takes longer is slow; 0: none is
	Triggers  float64       // that are taken, of a service in a second
	Endpoints []string      // URLs of coordinators; none: this host keeps its own parts of traces alone
}

// On reports whether it is on.
func (r Retro) On() bool { return r.Memory > 0 }

const (
	retroMemory = 64 << 20
	retroLeast  = 4 << 20
	retroMost   = 1 << 30
	delayLeast  = 500 * time.Millisecond
	delayMost   = time.Minute
)

func defaultRetro() Retro {
	return Retro{Share: 1, Delay: 2 * time.Second, Slow: time.Second, Triggers: 100}
}

var retroSettings = []setting{
	{"retro", "TARE_RETRO", "retro", func(c *Config, where, v string) (err error) {
		c.Retro.Memory, err = parseMemory(where, v)
		return err
	}},
	{"retro_share", "TARE_RETRO_SHARE", "", func(c *Config, where, v string) error {
		p, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(p) || p <= 0 || p > 1 {
			return &Error{where, v, "a share of all requests, more than 0 and up to 1"}
		}
		c.Retro.Share = p
		return nil
	}},
	{"retro_delay", "TARE_RETRO_DELAY", "", func(c *Config, where, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < delayLeast || d > delayMost {
			return &Error{where, v, "a time from " + delayLeast.String() + " to " + delayMost.String()}
		}
		c.Retro.Delay = d
		return nil
	}},
	{"retro_slow", "TARE_RETRO_SLOW", "retro-slow", func(c *Config, where, v string) error {
		if v == "off" {
			c.Retro.Slow = 0
			return nil
		}
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return &Error{where, v, "a time such as 500ms, or off"}
		}
		c.Retro.Slow = d
		return nil
	}},
	{"retro_triggers", "TARE_RETRO_TRIGGERS", "", func(c *Config, where, v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !(n > 0 && n <= 1e6) {
			return &Error{where, v, "traces of a service in a second, more than 0 and up to 1000000"}
		}
		c.Retro.Triggers = n
		return nil
	}},
	{"retro_endpoint", "TARE_RETRO_ENDPOINT", "retro-endpoint", func(c *Config, where, v string) error {
		c.Retro.Endpoints = listed(v)
		for _, e := range c.Retro.Endpoints {
			u, err := url.Parse(e)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
				return &Error{where, v, "URLs of collectors with the extension tare_retro, such as https://collector:4319, with commas between"}
			}
		}
		return nil
	}},
}

// parseMemory reads "64MiB", "on" for that much, or "off".
func parseMemory(where, v string) (int, error) {
	wrong := &Error{where, v, "memory from 4MiB to 1GiB, a power of two such as 64MiB; on (64MiB); or off"}
	switch v {
	case "", "off", "false":
		return 0, nil
	case "on", "true":
		return retroMemory, nil
	}
	for unit, size := range map[string]int{"MiB": 1 << 20, "GiB": 1 << 30} {
		number, ok := strings.CutSuffix(v, unit)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 || n > retroMost/size {
			return 0, wrong
		}
		n *= size
		if n < retroLeast || bits.OnesCount(uint(n)) != 1 {
			return 0, wrong
		}
		return n, nil
	}
	return 0, wrong
}
