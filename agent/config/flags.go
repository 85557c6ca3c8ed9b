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
	fs.String("kubernetes", d.Kubernetes, "ask the cluster's API which pods run here and what addresses are: auto, in a pod; on; off")
	fs.String("kubeconfig", "", "`file` with the address of the cluster's API and how to log in; without it, those of this pod")
	fs.String("node", "", "name of this node in the cluster; also NODE_NAME")
	fs.StringArray("linking", nil, "how receives are linked to sends in services whose runtime is not recognised: auto, thread, loop, queue, goroutine, task, none; with a rule's name, such as shop=thread, in that service, whatever is recognised; may be repeated")
	fs.String("correlation", strings.Join(d.Correlation, ","), "headers by which calls are linked that nothing else links, where the application forwards them, by commas; none")
	fs.StringArray("trust", nil, `network that tags are sent to and accepted from: 10.0.0.0/8, loopback, host, cluster, or "none"; may be repeated (default loopback and host, and cluster in one)`)
	fs.String("sampler", d.Sampler, "OpenTelemetry sampler; also OTEL_TRACES_SAMPLER")
	fs.String("sampler-arg", "1", "probability, of the ratio samplers; also OTEL_TRACES_SAMPLER_ARG")
	fs.String("budget", "", "what tracing may cost: a share of this host's CPUs, such as 1%, or CPU time per request, such as 5us; the sampling rate follows, at most the sampler's")
	fs.String("budget-floor", fmt.Sprint(d.Budget.Floor), "the sampling rate does not fall below it for the budget")
	fs.String("tier", d.Tier, "set of kernel hooks: auto (the first that works here), or only: "+strings.Join(tier.Names(), ", "))
	fs.String("tag", d.Tag, "what carries a sampled request's context between hosts: tcp, a TCP option; ip, an option of the IP header (Linux 6.6); none, nothing: a collector joins the spans by stream offset (implies --sequence)")
	fs.String("payload", "on", "on: read the first bytes of messages to name spans; off: read nothing")
	fs.String("request-headers", "", "headers of requests over HTTP/2 and gRPC that spans have as attributes, by commas")
	fs.String("listen", d.Listen, `address of /metrics and /healthz, or "none"`)
	fs.String("print", "", "print traces on standard output: tree or json")
	fs.String("events", d.Events, "on: also export an event for each message; only: events in place of spans, which a collector's tare_tracer makes from them; off")
	fs.Lookup("events").NoOptDefVal = EventsOn
	fs.Bool("same-host", d.SameHost, "where both ends of a connection are traced by this agent, pass the context within the kernel; false: over the wire, as between hosts")
	fs.String("arm-open", d.ArmOpen, "how connections that were open before the agent are traced between hosts: flags (Linux 6.12); nv: before that, by changing their congestion control for a moment")
	fs.Bool("sequence", false, "also export at which position of its connection's stream a request begins, for a collector that joins spans where no tag passes")
	fs.String("metrics", d.Metrics, "requests: measure every request by service and edge, sampled or not, at /metrics and by OTLP; off")
	fs.String("metrics-interval", d.MetricsInterval.String(), "time between two exports of these metrics by OTLP; off: they are at /metrics only")
	fs.Bool("replace", false, "take over from the agent that traces this host, without a gap; without it, a second agent refuses to begin")
	fs.String("instance", "", "name of this agent, where several trace one host; services that two of them select are traced twice")
	fs.Bool("bpf-stats", false, "measure the run time of the kernel programs")
	fs.String("stop-at", d.StopAt, "to measure what the stages cost, do nothing from this one on: "+strings.Join(Stages, ", ")+"; no spans come out then")
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
