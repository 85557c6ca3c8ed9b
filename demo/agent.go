package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/workloads"
)

// agentReady bounds the agent's start: the kernel verifies its programs then.
const agentReady = 30 * time.Second

// agent is a `tare agent` that traces the chain.
type agent struct {
	group   *workloads.Group
	process *workloads.Process
	base    string // of its HTTP server
	client  *http.Client
}

// agentConfig is the part of the agent's configuration file that is used.
type agentConfig struct {
	Services []agentService `yaml:"services"`
}

type agentService struct {
	Name  string `yaml:"name"`
	Ports []int  `yaml:"ports,flow"`
}

// startAgent returns when the agent is ready to trace.
func startAgent(ctx context.Context, st *stage, flags ...string) (a *agent, err error) {
	group, err := workloads.NewGroup("tare-agent")
	if err != nil {
		return nil, err
	}
	a = &agent{group: group, client: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.stop())
		}
	}()
	config, err := a.writeConfig(st.chain)
	if err != nil {
		return nil, err
	}
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	a.base = "http://" + listen
	argv := append([]string{st.opts.Tare, "agent", "--config", config, "--listen", listen}, flags...)
	a.process, err = group.Start("agent", argv, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + st.sink.endpoint(),
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_SAMPLER=parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=" + strconv.FormatFloat(st.opts.Sample, 'f', -1, 64),
		// What the caller's environment may hold must not change the run;
		// empty is the same as unset.
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=",
		"OTEL_EXPORTER_OTLP_HEADERS=", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=",
		"OTEL_SERVICE_NAME=", "OTEL_RESOURCE_ATTRIBUTES=",
	})
	if err != nil {
		return nil, err
	}
	return a, a.healthy(ctx)
}

func (a *agent) writeConfig(c *workloads.Chain) (string, error) {
	var conf agentConfig
	for _, s := range c.Services {
		conf.Services = append(conf.Services, agentService{Name: s.Name, Ports: []int{s.Port}})
	}
	b, err := yaml.Marshal(conf)
	if err != nil {
		return "", err
	}
	path := filepath.Join(a.group.Dir, "agent.yaml")
	return path, os.WriteFile(path, b, 0o600)
}

// freeAddress finds a loopback port that nobody listens on just now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (a *agent) healthy(ctx context.Context) error {
	timeout := time.NewTimer(agentReady)
	defer timeout.Stop()
	for {
		last := a.health(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.process.Done():
			return a.gone()
		case <-timeout.C:
			return fmt.Errorf("the agent was not healthy after %v (%w); it wrote:\n%s\n`tare doctor` says what this machine allows",
				agentReady, last, a.process.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// gone is the error of an agent that ended too soon.
func (a *agent) gone() error {
	return fmt.Errorf("%w\n`tare doctor` says what this machine allows", a.process.Exited())
}

func (a *agent) health(ctx context.Context) error {
	resp, err := a.get(ctx, "/healthz")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (a *agent) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", path, resp.Status), resp.Body.Close())
	}
	return resp, nil
}

// alive is an error if the agent has ended.
func (a *agent) alive() error {
	select {
	case <-a.process.Done():
		return a.gone()
	default:
		return nil
	}
}

// stop ends the agent, which sends what it still holds, and waits for it.
func (a *agent) stop() error {
	a.client.CloseIdleConnections()
	return a.group.Stop()
}
