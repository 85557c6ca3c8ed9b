// Package config reads the agent's configuration: defaults, then a YAML file,
// then the environment, then flags; what comes later wins. A scalar replaces a
// scalar and a list replaces a whole list (services, trust); resource
// attributes are merged by key.
//
// It refuses to guess: an unknown key, a value out of range or a selection of
// nothing is an error that names its place, the value and what is allowed.
// It does not look at the machine; which processes a rule selects is decided
// by package discover.
package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Config is what the agent was told. Load returns it complete and checked.
type Config struct {
	File        string // the file that was read, "" if none: reload watches it
	Services    []Rule // first match wins; never empty after Load
	ServiceName string // OTEL_SERVICE_NAME: for services whose rule has no name
	Resource    map[string]string
	Trust       []Trust
	Tier        string  // one of Tiers
	Sampler     string  // one of Samplers
	SamplerArg  float64 // probability, of the ratio samplers
	Payload     bool    // read the first bytes of messages, to name spans
	Listen      string  // address of /metrics and /healthz, "" for none
	Print       string  // "", "tree" or "json"
	Events      string  // one of EventModes
	Sequence    bool    // also tell where in its connection's stream a request begins
	Metrics     string  // one of MetricsModes
	BPFStats    bool    // measure the kernel programs' run time
	MaxSpans    int     // spans in progress that the agent keeps
	Queue       int     // finished spans that wait for the exporter
	Export      Export

	samplerGiven, argGiven bool
}

// Export is what OTEL_EXPORTER_OTLP_* does not already say to the exporter.
type Export struct {
	Protocol string // one of Protocols
}

// Tiers of kernel hooks: found by probing, or forced.
var Tiers = []string{"auto", "tracepoint"}

// What is given out of single messages.
const (
	EventsOff  = "off"  // spans of requests, and nothing of messages
	EventsOn   = "on"   // also an event for each message
	EventsOnly = "only" // no spans: a collector makes them of the events
)

// EventModes are the values of Config.Events.
var EventModes = []string{EventsOff, EventsOn, EventsOnly}

// What is measured of requests that are not sampled.
const (
	MetricsOff      = "off"
	MetricsRequests = "requests" // number, errors and duration of all requests, by service and edge
)

// MetricsModes are the values of Config.Metrics.
var MetricsModes = []string{MetricsOff, MetricsRequests}

// Protocols that spans can leave by.
var Protocols = []string{"grpc", "http/protobuf"}

// Default is the configuration before anything was read. It follows
// OpenTelemetry's defaults where there are any, and selects no service.
func Default() Config {
	return Config{
		Trust:      []Trust{{Loopback: true}, {Host: true}},
		Tier:       "auto",
		Sampler:    "parentbased_always_on",
		SamplerArg: 1,
		Payload:    true,
		Listen:     "127.0.0.1:9464",
		Events:     EventsOff,
		Metrics:    MetricsOff,
		MaxSpans:   32768,
		Queue:      65536,
		Export:     Export{Protocol: "http/protobuf"},
		Resource:   map[string]string{},
	}
}

// ErrNoServices means that nothing selects a service to trace.
var ErrNoServices = errors.New(`no service selected: give --port 8080, --exe "*/nginx" or --cgroup "/system.slice/shop.service*" ` +
	`(each may be repeated and may begin with a name: --port shop=8080), ` +
	`or TARE_PORTS, TARE_EXES or TARE_CGROUPS, or a file with "services:" by --config or TARE_CONFIG`)

// Error is one thing that is wrong in the configuration.
type Error struct {
	Where   string // file:line: key, variable or flag
	Value   string
	Allowed string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %q: allowed: %s", e.Where, e.Value, e.Allowed)
}

// Load puts the configuration together. The flags are those that Flags
// registered, already parsed (nil: none); environ is as os.Environ gives it.
// It may be called again to reload. All errors are reported, not only the first.
func Load(flags *pflag.FlagSet, environ []string) (Config, error) {
	c := Default()
	env := environment(environ)
	given := givenFlags(flags)

	var errs []error
	c.File = env["TARE_CONFIG"]
	if v, ok := given.scalars["config"]; ok {
		c.File = v
	}
	if c.File != "" {
		text, err := os.ReadFile(c.File)
		if err != nil {
			return c, fmt.Errorf("configuration: %w", err)
		}
		errs = append(errs, parseFile(&c, c.File, text))
	}
	errs = append(errs, applyEnvironment(&c, env), applyFlags(&c, given))
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c, c.complete()
}

// environment indexes the variables; an empty one counts as unset, as
// OpenTelemetry's specification has it.
func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && v != "" {
			env[k] = v
		}
	}
	return env
}

func oneOf(where, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return &Error{where, value, strings.Join(allowed, ", ")}
}
