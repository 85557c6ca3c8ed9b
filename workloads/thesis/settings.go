package main

import (
	"net"
	"time"

	"github.com/tare-trace/tare/workloads/internal/service"
)

// Strategies, by the thesis' names.
const (
	alwaysOn    = "always_on"
	alwaysOff   = "always_off"
	ratio       = "traceidratiobased"
	parentRatio = "parentbased_traceidratiobased"
)

// What a run without tracing leaves out.
const (
	bare = "bare" // everything
	noop = "noop" // only what lies behind the API
)

// How injected faults are spread over the requests.
const (
	even      = "even"
	scattered = "scattered"
)

const (
	maxPayload = 64 << 20 // bytes: a request may ask for it or send it, and many may at once
	maxSeconds = 60       // of /api/long-running
	maxPrimes  = 5_000_000
)

// settings are the environment's.
type settings struct {
	tracing   bool
	strategy  string
	rate      float64
	collector string
	baseline  string
	next      string
	setup     service.Setup

	payload          int
	longMin, longMax time.Duration
	deepDelay        time.Duration
	primes           int

	pattern      string
	seed         int // of scattered faults
	errors, slow float64
	slowDelay    time.Duration
}

func readSettings(env *service.Env) settings {
	const longest = time.Hour
	s := settings{
		tracing: env.Bool("TRACING_ENABLED", false),
		strategy: env.OneOf("SAMPLING_STRATEGY", alwaysOn, alwaysOn, alwaysOff, ratio, parentRatio,
			service.Adaptive, service.RateLimiting, service.ContextAware),
		rate:      env.Float("SAMPLING_RATE", 1, 0, 1),
		collector: env.URL("COLLECTOR_ENDPOINT"),
		baseline:  env.OneOf("BASELINE", bare, bare, noop),
		next:      env.URL("NEXT"),
		setup:     service.ReadSetup(env),
		payload:   env.Int("PAYLOAD_SIZE", 100<<10, 0, maxPayload),
		longMin:   env.Duration("LONG_RUNNING_MIN", time.Second, maxSeconds*time.Second),
		longMax:   env.Duration("LONG_RUNNING_MAX", 5*time.Second, maxSeconds*time.Second),
		deepDelay: env.Duration("DEEP_SPANS_DELAY", time.Millisecond, longest),
		primes:    env.Int("CPU_PRIMES", 40_000, 1, maxPrimes),
		pattern:   env.OneOf("INJECT_PATTERN", even, even, scattered),
		seed:      env.Int("INJECT_SEED", 0, 0, million/4),
		errors:    env.Float("INJECT_ERRORS", 0, 0, 1),
		slow:      env.Float("INJECT_SLOW", 0, 0, 1),
		slowDelay: env.Duration("INJECT_SLOW_DELAY", 1500*time.Millisecond, longest),
	}
	service.CheckAdaptive(env)
	if s.setup.AlertToken = env.String("ALERT_TOKEN", ""); s.setup.AlertToken != "" && (!s.tracing || s.strategy != service.Adaptive) {
		env.Wrong("ALERT_TOKEN", "(a token)", "none, unless TRACING_ENABLED is true and SAMPLING_STRATEGY "+service.Adaptive)
	}
	if s.longMin > s.longMax {
		env.Wrong("LONG_RUNNING_MIN", s.longMin.String(), "at most LONG_RUNNING_MAX, "+s.longMax.String())
	}
	return s
}

// config is what runs, for /config: the tracing as its objects have it, and
// the settings that shape a request. around is the instrumentation that is around
// the handlers without tracing, "" if there is none.
func (s settings) config(tracing *service.Tracing, around string, addr net.Addr) map[string]any {
	c := tracing.Config()
	if name, ok := thesisNames[c["sampling_strategy"].(string)]; ok {
		c["sampling_strategy"] = name
	}
	c["service"] = "thesis"
	c["listen"] = addr.String()
	c["baseline"] = ""
	if c["tracing_enabled"] == false {
		c["baseline"] = s.baseline
		if around != "" {
			c["instrumentation"] = around
		}
	}
	c["next"] = s.next
	c["payload_size"] = s.payload
	c["long_running_min"] = s.longMin.String()
	c["long_running_max"] = s.longMax.String()
	c["deep_spans_delay"] = s.deepDelay.String()
	c["cpu_primes"] = s.primes
	c["inject_pattern"] = s.pattern
	c["inject_seed"] = s.seed
	c["inject_errors"] = s.errors
	c["inject_slow"] = s.slow
	c["inject_slow_delay"] = s.slowDelay.String()
	return c
}
