package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tare-trace/tare/agent/tier"
)

// Flags registers the agent's flags. Load checks their values, so that errors read the
// same wherever a value comes from.
func Flags(fs *pflag.FlagSet) {
	d := Default()
	fs.String("config", "", "YAML `file`; also TARE_CONFIG")
	selectors := &[]selector{}
	fs.Var(&selectorFlag{"port", selectors}, "port", "trace processes that listen on this port or range, such as 8080, 9000-9010, shop=8080; may be repeated")
	fs.Var(&selectorFlag{"exe", selectors}, "exe", `trace executables by path, * crosses /, such as "*/nginx", "web=*/python3*"; may be repeated`)
	fs.Var(&selectorFlag{"cgroup", selectors}, "cgroup", `trace cgroups by path, such as "/system.slice/shop.service*"; may be repeated`)
	fs.Var(&selectorFlag{"namespace", selectors}, "namespace", `trace the pods of a Kubernetes namespace, such as "shop", "team-*"; may be repeated`)
	fs.String("kubernetes", d.Kubernetes, "ask the Kubernetes API for pods and addresses: auto (only in a pod), on, off")
	fs.String("kubeconfig", "", "kubeconfig `file`; default: the credentials of this pod")
	fs.String("node", "", "Kubernetes node name; also NODE_NAME")
	fs.StringArray("linking", nil, "how calls are linked to requests in services of an unknown runtime: auto, thread, loop, queue, goroutine, task, none; shop=thread sets it for the service shop, of any runtime; may be repeated")
	fs.String("correlation", strings.Join(d.Correlation, ","), "fallback correlation headers, comma-separated: link a call by a header that the application forwards; or none")
	fs.StringArray("trust", nil, `exchange trace context with this network only: 10.0.0.0/8, loopback, host, cluster, or "none"; may be repeated (default loopback, host, and in Kubernetes cluster)`)
	fs.String("sampler", d.Sampler, "OpenTelemetry sampler; also OTEL_TRACES_SAMPLER")
	fs.String("sampler-arg", "1", "sampling probability of the ratio samplers, 0 to 1; also OTEL_TRACES_SAMPLER_ARG")
	fs.String("budget", "", "limit the cost of tracing to a share of this host's CPUs (1%) or CPU time per request (5us), by lowering the sampling rate")
	fs.String("budget-floor", fmt.Sprint(d.Budget.Floor), "lowest sampling rate that the budget may set")
	fs.String("retro", "", "retroactive sampling: remember requests that are not sampled in so much memory (64MiB), and keep the traces of failed and slow ones; off")
	fs.String("retro-slow", d.Retro.Slow.String(), "with --retro: a request is slow if it enters here and takes longer; off")
	fs.String("retro-endpoint", "", "with --retro: URLs of collectors with the extension tare_retro, by which agents keep whole traces, comma-separated")
	fs.String("tier", d.Tier, "set of kernel hooks: auto (the first that works here), "+strings.Join(tier.Names(), ", "))
	fs.String("tag", d.Tag, "what carries the trace context between hosts: tcp (a TCP option), ip (an option of the IP header, Linux 6.6), none (a collector joins spans by stream offset; implies --sequence)")
	fs.String("payload", "on", "read the first bytes of messages to name spans: on, off")
	fs.String("request-headers", "", "HTTP/2 and gRPC request headers to add to spans, comma-separated")
	fs.String("listen", d.Listen, `address of /metrics and /healthz, or "none"`)
	fs.String("print", "", "print traces on standard output: tree or json")
	fs.String("events", d.Events, "export an event for each message: on (also), only (a collector's tare_tracer makes the spans from them), off")
	fs.Lookup("events").NoOptDefVal = EventsOn
	fs.Bool("same-host", d.SameHost, "pass the context within the kernel where this agent traces both ends of a connection; false: over the wire, as between hosts")
	fs.String("arm-open", d.ArmOpen, "how to enable context on connections between hosts that were open before the agent: flags (Linux 6.12), nv (older: changes their congestion control for a moment)")
	fs.Bool("sequence", false, "also export the stream offset of each request, for a collector that joins spans where no context passes")
	fs.String("metrics", d.Metrics, "measure every request, sampled or not, by service and edge: requests, off")
	fs.String("metrics-interval", d.MetricsInterval.String(), "interval between exports of these metrics by OTLP; off: only at /metrics")
	fs.Bool("replace", false, "take over from the running agent without a gap; without it, a second agent does not start")
	fs.String("instance", "", "name of this agent, to run several on one host; a service that two of them select is traced twice")
	fs.Bool("bpf-stats", false, "measure the run time of the kernel programs")
	fs.String("stop-at", d.StopAt, "stop before this stage, to measure what stages cost: "+strings.Join(Stages, ", ")+"; exports no spans")
}

// Choices are the values that flags may have, of those with a list of them.
func Choices() map[string][]string {
	onOff := []string{"on", "off"}
	return map[string][]string{
		"sampler": Samplers, "tier": Tiers, "tag": Tags, "events": EventModes, "metrics": MetricsModes, "arm-open": ArmModes,
		"payload": onOff, "print": prints, "linking": linkings, "trust": {"loopback", "host", "cluster", "none"},
		"kubernetes": KubernetesModes, "stop-at": Stages,
	}
}

// selectorFlag collects --port, --exe, --cgroup and --namespace in one list, so that rules keep the
// order of the command line: the first match wins.
type selectorFlag struct {
	kind string
	list *[]selector
}

func (f *selectorFlag) Set(text string) error {
	*f.list = append(*f.list, selector{f.kind, text})
	return nil
}

func (f *selectorFlag) Type() string   { return f.kind }
func (f *selectorFlag) String() string { return "" }

// given are the flags that the command line sets.
type given struct {
	scalars   map[string]string
	lists     map[string][]string
	selectors []selector
}

func givenFlags(fs *pflag.FlagSet) given {
	g := given{scalars: map[string]string{}, lists: map[string][]string{}}
	if fs == nil {
		return g
	}
	fs.Visit(func(f *pflag.Flag) {
		switch v := f.Value.(type) {
		case *selectorFlag:
			g.selectors = *v.list
		case pflag.SliceValue:
			g.lists[f.Name] = v.GetSlice()
		default:
			g.scalars[f.Name] = f.Value.String()
		}
	})
	return g
}

func applyFlags(c *Config, g given) error {
	var errs []error
	for _, s := range settings {
		if v, ok := g.scalars[s.flag]; ok && s.flag != "" {
			errs = append(errs, s.set(c, "--"+s.flag, v))
		}
	}
	if trust, ok := g.lists["trust"]; ok {
		errs = append(errs, parseTrustList(c, "--trust", trust))
	}
	return errors.Join(append(errs, applySelectors(c, g.selectors, func(kind string) string { return "--" + kind }))...)
}
