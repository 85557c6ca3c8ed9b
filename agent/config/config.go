// Package config reads the agent's configuration: defaults, then a YAML file, then the
// environment, then flags; later ones win. A scalar replaces a scalar and a list replaces
// a whole list (services, trust); resource attributes are merged by key.
//
// It does not guess: an unknown key, a value out of range or a selection of nothing is an
// error with its place, the value and what is allowed. It does not read the state of the
// machine: package discover decides which processes a rule selects.
package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tare-trace/tare/agent/tier"
)

// Config is the agent's configuration. Load returns it complete and checked.
type Config struct {
	File        string   // the file that was read, "" if none; changes of it trigger a reload
	Services    []Rule   // first match wins; never empty after Load
	ServiceName string   // OTEL_SERVICE_NAME: for services whose rule has no name
	Linking     Linking  // of services whose runtime is not recognised and whose rule does not say
	Correlation []string // headers that link calls that nothing else links, of services whose rule does not say
	Resource    map[string]string
	Trust       []Trust
	Kubernetes  string  // one of KubernetesModes; see AsksCluster
	Kubeconfig  string  // file, "" for the service account of this pod
	Node        string  // name of this node in the cluster
	Tier        string  // one of Tiers
	Tag         string  // one of Tags
	Sampler     string  // one of Samplers
	SamplerArg  float64 // probability, of the ratio samplers
	Retro       Retro
	Budget      Budget   // what tracing may cost; the sampling rate follows, at most the sampler's
	Payload     bool     // read the first bytes of messages, to name spans
	Headers     []string // of requests over HTTP/2 and gRPC, that spans have as attributes
	Listen      string   // address of /metrics and /healthz, "" for none
	Print       string   // "", "tree" or "json"
	Events      string   // one of EventModes
	Sequence    bool     // also report the position in its connection's stream where a request begins
	Metrics     string   // one of MetricsModes
	// MetricsInterval is the time between two exports of what Metrics measures, by OTLP; 0: it is at /metrics only.
	MetricsInterval time.Duration
	SameHost        bool   // pass the context within the kernel where both ends are traced here
	ArmOpen         string // one of ArmModes
	Instance        string // of agents that trace different services of one host
	Replace         bool   // take over from the agent that traces this host
	BPFStats        bool   // measure the kernel programs' run time
	StopAt          string // "", or one of Stages to measure what those before it cost
	MaxSpans        int    // bound of the spans in progress
	Queue           int    // bound of the finished spans that wait for the exporter
	Export          Export

	samplerGiven, argGiven, sequenceGiven bool
	inPod                                 bool // of a cluster
}

// Export is what the exporter does not read from OTEL_EXPORTER_OTLP_* itself.
type Export struct {
	Protocol string // one of Protocols
	Exporter string // OTEL_TRACES_EXPORTER: ExporterOTLP, ExporterNone, or "": OTLP unless spans are printed
}

// Values of Export.Exporter.
const (
	ExporterOTLP = "otlp"
	ExporterNone = "none"
)

// Values of Config.StopAt beside "": nothing is done from that stage on.
const (
	StopAtPrograms = "programs" // they are attached, and return at once
	StopAtRecords  = "records"  // they are read, and thrown away
	StopAtEncoding = "encoding" // spans are built, and thrown away
	StopAtSending  = "sending"  // requests are encoded, and thrown away
)

// Stages are what Config.StopAt may be.
var Stages = []string{StopAtPrograms, StopAtRecords, StopAtEncoding, StopAtSending}

// AutoTier is the first tier of kernel hooks that works here.
const AutoTier = "auto"

// Tiers of kernel hooks that can be asked for.
var Tiers = append([]string{AutoTier}, tier.Names()...)

// Values of Config.Tag: what carries the context of a sampled request between hosts.
const (
	TagTCP  = "tcp"  // a TCP option
	TagIP   = "ip"   // an option of the IP header
	TagNone = "none" // nothing; a collector joins spans by stream offset, so Config.Sequence is true
)

// Tags are the values of Config.Tag.
var Tags = []string{TagTCP, TagIP, TagNone}

// Values of Config.Events: whether single messages are reported.
const (
	EventsOff  = "off"  // only spans of requests
	EventsOn   = "on"   // also an event for each message
	EventsOnly = "only" // events in place of spans, which a collector makes from them
)

// EventModes are the values of Config.Events.
var EventModes = []string{EventsOff, EventsOn, EventsOnly}

// Values of Config.Metrics: whether all requests are measured.
const (
	MetricsOff      = "off"
	MetricsRequests = "requests" // number, errors and duration of all requests, by service and edge
)

// MetricsModes are the values of Config.Metrics.
var MetricsModes = []string{MetricsOff, MetricsRequests}

// Values of Config.Kubernetes: whether the cluster's API is asked.
const (
	KubernetesAuto = "auto" // in a pod
	KubernetesOn   = "on"
	KubernetesOff  = "off"
)

// KubernetesModes are the values of Config.Kubernetes.
var KubernetesModes = []string{KubernetesAuto, KubernetesOn, KubernetesOff}

// Values of Config.ArmOpen: how connections that were open before the agent get the
// calls that tags need.
const (
	ArmFlags = "flags" // an iterator sets them (Linux 6.12)
	ArmNV    = "nv"    // else, by way of the congestion control nv
)

// ArmModes are the values of Config.ArmOpen.
var ArmModes = []string{ArmFlags, ArmNV}

// Protocols of OTLP.
var Protocols = []string{"grpc", "http/protobuf"}

// Default is the configuration before anything was read. It has OpenTelemetry's defaults
// where these exist, and selects no service.
func Default() Config {
	return Config{
		Trust:           []Trust{{Loopback: true}, {Host: true}, {Cluster: true}},
		Correlation:     DefaultCorrelation,
		Kubernetes:      KubernetesAuto,
		Tier:            AutoTier,
		Tag:             TagTCP,
		Sampler:         "parentbased_always_on",
		SamplerArg:      1,
		Retro:           defaultRetro(),
		Budget:          Budget{Floor: 0.0001},
		Payload:         true,
		Listen:          "127.0.0.1:9464",
		Events:          EventsOff,
		Metrics:         MetricsOff,
		MetricsInterval: time.Minute, // OpenTelemetry's
		SameHost:        true,
		ArmOpen:         ArmFlags,
		MaxSpans:        32768,
		Queue:           65536,
		Export:          Export{Protocol: "http/protobuf"},
		Resource:        map[string]string{},
	}
}

// ErrNoServices means that nothing selects a service to trace.
var ErrNoServices = errors.New(`no service selected: give --port 8080, --exe "*/nginx" --cgroup "/system.slice/shop.service*" or, in a cluster, --namespace shop ` +
	`(each may be repeated and may begin with a name: --port shop=8080), ` +
	`or TARE_PORTS, TARE_EXES, TARE_CGROUPS or TARE_NAMESPACES, or a file with "services:" by --config or TARE_CONFIG`)

// Error is one error in the configuration.
type Error struct {
	Where   string // file:line: key, variable or flag
	Value   string
	Allowed string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %q: allowed: %s", e.Where, e.Value, e.Allowed)
}

// Load reads the configuration. flags were registered by Flags and are parsed (nil:
// none); environ has the form of os.Environ. It may be called again to reload. It reports
// all errors, not only the first.
func Load(flags *pflag.FlagSet, environ []string) (Config, error) {
	c := Default()
	env := environment(environ)
	c.inPod = env["KUBERNETES_SERVICE_HOST"] != ""
	given := givenFlags(flags)

	var errs []error
	c.File = env["TARE_CONFIG"]
	if v, ok := given.scalars["config"]; ok {
		c.File = v
	}
	if c.File != "" {
		text, err := readFile(c.File)
		if err != nil {
			return c, err
		}
		errs = append(errs, parseFile(&c, c.File, text))
	}
	errs = append(errs, applyEnvironment(&c, env), applyFlags(&c, given))
	// Last, since it names rules, and flags may replace those of the variables and the file.
	errs = append(errs, applyLinking(&c, "TARE_LINKING", listed(env["TARE_LINKING"])), applyLinking(&c, "--linking", given.lists["linking"]))
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c, c.complete()
}

// AsksCluster reports whether the API of a cluster is to be asked.
func (c *Config) AsksCluster() bool {
	return c.Kubernetes == KubernetesOn || c.Kubernetes == KubernetesAuto && c.inPod
}

// environment indexes the variables; an empty one counts as unset, as OpenTelemetry
// specifies.
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
