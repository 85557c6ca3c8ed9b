package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-trace/tare/agent/claim"
)

// setting is a scalar that the file, the environment or a flag can set. All three use the
// same parser.
type setting struct {
	key  string // in the file
	env  string
	flag string // "": no flag
	set  func(c *Config, where, value string) error
}

// prints are the values of Config.Print but "".
var prints = []string{"tree", "json"}

var settings = slices.Concat(generalSettings, retroSettings)

var generalSettings = []setting{
	{"sampler", "OTEL_TRACES_SAMPLER", "sampler", func(c *Config, where, v string) error {
		c.Sampler, c.samplerGiven = v, true
		return oneOf(where, v, Samplers...)
	}},
	{"sampler_arg", "OTEL_TRACES_SAMPLER_ARG", "sampler-arg", func(c *Config, where, v string) error {
		p, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(p) || p < 0 || p > 1 {
			return &Error{where, v, probabilityRange}
		}
		c.SamplerArg, c.argGiven = p, true
		return nil
	}},
	{"budget", "TARE_BUDGET", "budget", func(c *Config, where, v string) (err error) {
		c.Budget.Share, c.Budget.PerRequest, err = parseBudget(where, v)
		return err
	}},
	{"budget_floor", "TARE_BUDGET_FLOOR", "budget-floor", func(c *Config, where, v string) error {
		p, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(p) || p < minFloor || p > 1 {
			return &Error{where, v, fmt.Sprintf("a probability from %v to 1", minFloor)}
		}
		c.Budget.Floor = p
		return nil
	}},
	{"kubernetes", "TARE_KUBERNETES", "kubernetes", func(c *Config, where, v string) error {
		c.Kubernetes = v
		return oneOf(where, v, KubernetesModes...)
	}},
	{"kubeconfig", "KUBECONFIG", "kubeconfig", func(c *Config, _, v string) error {
		c.Kubeconfig = v
		return nil
	}},
	{"node", "NODE_NAME", "node", func(c *Config, _, v string) error {
		c.Node = v
		return nil
	}},
	{"tier", "TARE_TIER", "tier", func(c *Config, where, v string) error {
		c.Tier = v
		return oneOf(where, v, Tiers...)
	}},
	{"tag", "TARE_TAG", "tag", func(c *Config, where, v string) error {
		c.Tag = v
		return oneOf(where, v, Tags...)
	}},
	{"payload", "TARE_PAYLOAD", "payload", boolean(func(c *Config) *bool { return &c.Payload })},
	{"request_headers", "TARE_REQUEST_HEADERS", "request-headers", func(c *Config, _, v string) error {
		c.Headers = listed(strings.ToLower(v))
		return nil
	}},
	{"correlation", "TARE_CORRELATION", "correlation", func(c *Config, where, v string) (err error) {
		c.Correlation, err = parseCorrelation(where, listed(v))
		return err
	}},
	{"listen", "TARE_LISTEN", "listen", func(c *Config, where, v string) error {
		if v == "" || v == "none" {
			c.Listen = ""
			return nil
		}
		_, port, err := net.SplitHostPort(v)
		if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
			return &Error{where, v, `address:port such as 127.0.0.1:9464, or "none"`}
		}
		c.Listen = v
		return nil
	}},
	{"print", "TARE_PRINT", "print", func(c *Config, where, v string) error {
		c.Print = v
		if v == "" {
			return nil
		}
		return oneOf(where, v, prints...)
	}},
	{"events", "TARE_EVENTS", "events", func(c *Config, where, v string) error {
		switch v { // it used to be a boolean
		case "true":
			v = EventsOn
		case "false":
			v = EventsOff
		}
		c.Events = v
		return oneOf(where, v, EventModes...)
	}},
	{"same_host", "TARE_SAME_HOST", "same-host", boolean(func(c *Config) *bool { return &c.SameHost })},
	{"arm_open", "TARE_ARM_OPEN", "arm-open", func(c *Config, where, v string) error {
		c.ArmOpen = v
		return oneOf(where, v, ArmModes...)
	}},
	{"sequence", "TARE_SEQUENCE", "sequence", func(c *Config, where, v string) error {
		c.sequenceGiven = true
		return boolean(func(c *Config) *bool { return &c.Sequence })(c, where, v)
	}},
	{"metrics", "TARE_METRICS", "metrics", func(c *Config, where, v string) error {
		c.Metrics = v
		return oneOf(where, v, MetricsModes...)
	}},
	{"", "OTEL_METRIC_EXPORT_INTERVAL", "", func(c *Config, where, v string) error {
		ms, err := strconv.ParseUint(v, 10, 32)
		if err != nil || ms == 0 {
			return &Error{where, v, "milliseconds"}
		}
		return setMetricsInterval(c, where, v+"ms")
	}},
	{"", "OTEL_METRICS_EXPORTER", "", func(c *Config, where, v string) error { // after the interval
		switch v {
		case "none", "prometheus":
			c.MetricsInterval = 0
			return nil
		}
		return oneOf(where, v, ExporterOTLP, "prometheus", ExporterNone)
	}},
	{"metrics_interval", "TARE_METRICS_INTERVAL", "metrics-interval", setMetricsInterval},
	{"instance", "TARE_INSTANCE", "instance", func(c *Config, where, v string) error {
		c.Instance = v
		if len(v) > claim.MaxInstance {
			return &Error{where, v, fmt.Sprintf("a name of at most %d bytes", claim.MaxInstance)}
		}
		return nil
	}},
	{"replace", "TARE_REPLACE", "replace", boolean(func(c *Config) *bool { return &c.Replace })},
	{"bpf_stats", "TARE_BPF_STATS", "bpf-stats", boolean(func(c *Config) *bool { return &c.BPFStats })},
	{"stop_at", "TARE_STOP_AT", "stop-at", func(c *Config, where, v string) error {
		c.StopAt = v
		if v == "" {
			return nil
		}
		return oneOf(where, v, Stages...)
	}},
	{"max_spans", "TARE_MAX_SPANS", "", count(func(c *Config) *int { return &c.MaxSpans })},
	{"queue", "TARE_QUEUE", "", count(func(c *Config) *int { return &c.Queue })},
	{"trust", "TARE_TRUST", "", func(c *Config, where, v string) error {
		return parseTrustList(c, where, strings.Split(v, ","))
	}},
	{"", "OTEL_SERVICE_NAME", "", func(c *Config, _, v string) error {
		c.ServiceName = v
		return nil
	}},
	{"", "OTEL_RESOURCE_ATTRIBUTES", "", parseResource},
	{"", "OTEL_TRACES_EXPORTER", "", setExporter}, // after TARE_PRINT
	{"", "OTEL_SDK_DISABLED", "", func(_ *Config, where, v string) error {
		if strings.EqualFold(v, "true") {
			return &Error{where, v, "false: an agent that traces nothing need not be started; to measure without traces, sampler always_off"}
		}
		return nil // OpenTelemetry: everything else means false
	}},
	{"", "OTEL_EXPORTER_OTLP_PROTOCOL", "", setProtocol},
	{"", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "", setProtocol}, // wins over the general one before it
}

// minMetricsInterval is the least time between two exports of metrics.
const minMetricsInterval = 100 * time.Millisecond

func setMetricsInterval(c *Config, where, v string) error {
	if v == "off" || v == "none" {
		c.MetricsInterval = 0
		return nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < minMetricsInterval {
		return &Error{where, v, "a time from " + minMetricsInterval.String() + " on, such as 10s, or off"}
	}
	c.MetricsInterval = d
	return nil
}

func setProtocol(c *Config, where, v string) error {
	c.Export.Protocol = v
	return oneOf(where, v, Protocols...)
}

// setExporter reads a list of exporters, as OpenTelemetry has it.
func setExporter(c *Config, where, v string) error {
	named := listed(v)
	for _, name := range named {
		switch {
		case name == ExporterOTLP, name == ExporterNone && len(named) == 1:
			c.Export.Exporter = name
		case name == "console":
			c.Print = cmp.Or(c.Print, "tree")
		default:
			return &Error{where, v, "otlp, console, both with a comma between, or none alone"}
		}
	}
	return nil
}

func boolean(field func(*Config) *bool) func(*Config, string, string) error {
	return func(c *Config, where, v string) error {
		switch v {
		case "on", "true":
			*field(c) = true
		case "off", "false":
			*field(c) = false
		default:
			return &Error{where, v, "on, off"}
		}
		return nil
	}
}

// maxCount bounds what a mistyped number can allocate.
const maxCount = 1 << 20

func count(field func(*Config) *int) func(*Config, string, string) error {
	return func(c *Config, where, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxCount {
			return &Error{where, v, fmt.Sprintf("a number from 1 to %d", maxCount)}
		}
		*field(c) = n
		return nil
	}
}
