package tracer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/scrape"
	"github.com/tare-trace/tare/workloads"
)

// tare is this project's agent, run as its users run it on a node: the small
// binary, a configuration file, OpenTelemetry's environment variables.
type tare struct{}

// Facts: the start takes a while, since the kernel verifies the programs. Headers of
// HTTP/2 refer to those before them, so what the agent has not seen all of has no more
// than the method that the client's own program holds.
func (tare) Facts(t *experiment.Tracer) Facts {
	f := Facts{Traces: t.StopAt == "" && !t.Neighbour, CallsByMethod: true, Programs: true, Takes: time.Second}
	if t.Fault.Broken() && t.Fault != experiment.FaultSilent { // a run that ends repairs a silent one
		f.Takes += drain
	}
	return f
}

// drain is how long the agent goes on, when it is to end, to send the spans that it holds.
const drain = 10 * time.Second

// Check: without rates, the agent does not sample but reports everything.
func (tare) Check(t *experiment.Tracer) error { return noSampler(t) }

const advice = "`tare doctor` says what this machine allows"

// agentName is the binary that has the agent and no collector.
const agentName = "tare-agent"

// agentBinary finds it beside the tare executable.
func agentBinary(tare string) (string, error) {
	path := filepath.Join(filepath.Dir(tare), agentName)
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("%s is not beside %s: `make build` makes both (%w)", agentName, tare, err)
	}
	return path, nil
}

func (tare) Available(ctx context.Context, t *experiment.Tracer, h *Host) error {
	if err := h.offers(ctx, t); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("the tare agent loads kernel programs, which needs root: run with sudo")
	}
	return nil
}

// Start returns when the agent is ready to trace.
func (tare) Start(ctx context.Context, t Target) (Session, error) {
	group, err := workloads.NewGroup("tare-agent")
	if err != nil {
		return nil, err
	}
	group.Grace = 2 * drain
	a := &agent{group: group, client: &http.Client{Transport: &http.Transport{}, Timeout: scrape.Within}}
	if err := a.start(ctx, t); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	return a, nil
}

// agent is a `tare-agent` that traces a chain.
type agent struct {
	group   *workloads.Group
	process *workloads.Process
	service *service // what the workload itself has to say; nil: it is not asked
	asked   map[string]string
	all     bool   // without sampling
	blind   bool   // it sees no request
	base    string // of its HTTP server
	client  *http.Client

	once sync.Once
	err  error // of Stop
}

// agentConfig is the part of the agent's configuration file that is used.
type agentConfig struct {
	Services []agentService `yaml:"services"`
}

type agentService struct {
	Name  string `yaml:"name"`
	Ports []int  `yaml:"ports,flow,omitempty"`
	// Executable instead of ports.
	Executable string `yaml:"executable,omitempty"`
	// Linking is what the service's owner knows.
	Linking string `yaml:"linking,omitempty"`
}

func (a *agent) start(ctx context.Context, t Target) error {
	if len(t.Variant.Tracer.Expect) > 0 {
		a.service = newService(t)
	}
	file, err := a.writeConfig(t)
	if err != nil {
		return err
	}
	listen, err := workloads.FreeAddress()
	if err != nil {
		return err
	}
	a.base = "http://" + listen
	binary, err := agentBinary(t.Tare)
	if err != nil {
		return err
	}
	argv := append([]string{binary, "--config", file, "--listen", listen}, t.Variant.Tracer.Flags...)
	if stop := t.Variant.Tracer.StopAt; stop != "" {
		argv = append(argv, "--stop-at", stop)
	}
	a.blind = t.Variant.Tracer.Neighbour || t.Variant.Tracer.StopAt == "programs"
	if t.Statistics {
		argv = append(argv, "--bpf-stats")
	}
	a.asked = map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": t.Sink.OTLP,
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		"OTEL_TRACES_SAMPLER":         "parentbased_always_on",
	}
	if a.all = len(t.Variant.Tracer.Rates) == 0; !a.all {
		a.asked["OTEL_TRACES_SAMPLER"] = "parentbased_traceidratio"
		a.asked["OTEL_TRACES_SAMPLER_ARG"] = strconv.FormatFloat(t.Variant.Rate, 'f', -1, 64)
	}
	env := []string{
		// What the caller's environment may hold must not change the run;
		// empty is the same as unset.
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=",
		"OTEL_EXPORTER_OTLP_HEADERS=", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=",
		"OTEL_SERVICE_NAME=", "OTEL_RESOURCE_ATTRIBUTES=", "OTEL_TRACES_SAMPLER_ARG=",
		"TARE_INSTANCE=lab-" + strconv.Itoa(os.Getpid()), "TARE_REPLACE=", // beside what traces this host
		"TARE_REQUEST_HEADERS=" + fidelity.RequestHeader, // the number, where gRPC is asked
	}
	for k, v := range a.asked {
		env = append(env, k+"="+v)
	}
	if a.process, err = a.group.Start("agent", workloads.WithResolv(t.Resolv, argv), env); err != nil {
		return err
	}
	if err := a.process.Await(ctx, a.health, t.Say); err != nil {
		return fmt.Errorf("%w\n%s", err, advice)
	}
	return nil
}

func (a *agent) writeConfig(t Target) (string, error) {
	var conf agentConfig
	services := t.Chain.Services
	if t.Variant.Tracer.Neighbour {
		idle, err := a.group.Start("idle", []string{"sleep", "infinity"}, nil)
		if err != nil {
			return "", err
		}
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", idle.PID()))
		if err != nil {
			return "", err
		}
		services, conf.Services = nil, []agentService{{Name: "idle", Executable: path}}
	}
	for _, s := range services {
		if s.Dependency {
			continue
		}
		i := slices.IndexFunc(conf.Services, func(have agentService) bool { return have.Name == s.Name })
		if i < 0 {
			i = len(conf.Services)
			conf.Services = append(conf.Services, agentService{Name: s.Name, Linking: s.Linking})
		}
		conf.Services[i].Ports = append(conf.Services[i].Ports, s.Port)
	}
	b, err := yaml.Marshal(conf)
	if err != nil {
		return "", err
	}
	path := filepath.Join(a.group.Dir, "agent.yaml")
	return path, os.WriteFile(path, b, 0o600)
}

func (a *agent) health(ctx context.Context) error {
	body, err := scrape.Open(ctx, a.client, a.base+"/healthz")
	if err != nil {
		return err
	}
	return body.Close()
}

// Sampled is how many traces the agent has sampled. Unlike ReadBack it asks the services nothing, which the agent would
// trace and count.
func (a *agent) Sampled(ctx context.Context) (uint64, error) {
	r, err := a.metrics(ctx)
	return r.Sampled, err
}

// metrics reads the agent's /metrics.
func (a *agent) metrics(ctx context.Context) (Reading, error) {
	if err := a.Alive(); err != nil {
		return Reading{}, err
	}
	body, err := scrape.Open(ctx, a.client, a.base+"/metrics")
	if err != nil {
		return Reading{}, fmt.Errorf("the agent's metrics: %w", err)
	}
	r, err := parseMetrics(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return Reading{}, fmt.Errorf("the agent's metrics: %w", err)
	}
	return r, nil
}

// ReadBack reads the agent's /metrics, then what is expected of the workload itself.
func (a *agent) ReadBack(ctx context.Context) (Reading, error) {
	r, err := a.metrics(ctx)
	if err != nil {
		return Reading{}, err
	}
	r.Asked = a.asked
	r.HasRoots = r.HasRoots && !a.blind
	if a.all && r.Rate != 1 {
		return r, fmt.Errorf("the agent samples %v of the traces, where it was to report all", r.Rate)
	}
	r.Config = map[string]any{
		"sampling_ratio": r.Rate, "roots_sampled": r.Sampled, "roots_unsampled": r.Unsampled,
	}
	if a.service != nil {
		s, err := a.service.ReadBack(ctx)
		r.Config["service"] = s.Config
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// Reported is how many bytes the receiver has taken from the agent since it began, before compression.
func (a *agent) Reported(ctx context.Context) (float64, error) {
	families, err := scrape.Get(ctx, a.client, a.base+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("the agent's metrics: %w", err)
	}
	if families[metricExported] == nil {
		return 0, fmt.Errorf("the agent's metrics: there is no %s", metricExported)
	}
	return families.Total(metricExported), nil
}

// PIDs is the agent's one process.
func (a *agent) PIDs() []int { return []int{a.process.PID()} }

// Alive is an error if the agent has ended.
func (a *agent) Alive() error {
	select {
	case <-a.process.Done():
		return fmt.Errorf("%w\n%s", a.process.Exited(), advice)
	default:
		return nil
	}
}

// Stop ends the agent, which sends what it still holds, and waits for it.
func (a *agent) Stop() error {
	a.once.Do(func() {
		a.client.CloseIdleConnections()
		a.err = a.group.Stop()
	})
	return a.err
}
