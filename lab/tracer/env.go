package tracer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
)

// env is tracing within the service, such as an SDK, that the environment
// switches on: it is on when the service has started.
type env struct{}

func (env) Facts(*experiment.Tracer) Facts   { return Facts{Traces: true, Within: true} }
func (env) Check(t *experiment.Tracer) error { return needsEnv(t) }

func (env) Available(context.Context, *experiment.Tracer, *Host) error { return nil }

func (env) Start(_ context.Context, t Target) (Session, error) { return newService(t), nil }

// service reads a service's own configuration.
type service struct {
	target Target
	client *http.Client
}

func newService(t Target) *service {
	return &service{target: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
}

func (*service) PIDs() []int  { return nil }
func (*service) Alive() error { return nil }
func (*service) Stop() error  { return nil }

// ReadBack asks the service at the workload's read_back path. Where it has none,
// the environment of the running process is the best there is.
func (s *service) ReadBack(ctx context.Context) (Reading, error) {
	t := s.target
	r := Reading{Asked: t.Variant.Environment(t.Sink), Config: map[string]any{}}
	if t.Workload.ReadBack == "" {
		if err := s.environment(r); err != nil {
			return r, err
		}
	} else if err := s.ask(ctx, r.Config); err != nil {
		return r, err
	}
	for key, want := range t.Variant.Expected(t.Sink) {
		got, ok := lookUp(r.Config, key)
		if !ok {
			return r, fmt.Errorf("%s: the running service does not tell %q: it says %v", t.Variant.Name, key, r.Config)
		}
		if text := fmt.Sprint(got); !same(text, want) {
			return r, fmt.Errorf("%s: the running service says %s=%s, and should say %s", t.Variant.Name, key, text, want)
		}
	}
	r.fromConfig()
	return r, nil
}

// ask gets the configuration as JSON.
func (s *service) ask(ctx context.Context, into map[string]any) error {
	url := "http://" + s.target.Chain.Entry + s.target.Workload.ReadBack
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("reading the running configuration back: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("reading the running configuration back: %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("reading the running configuration back: %s: %s", url, resp.Status)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&into); err != nil {
		return fmt.Errorf("reading the running configuration back: %s is not a JSON object: %w", url, err)
	}
	return nil
}

// environment reads the variables that were asked for from the running process.
func (s *service) environment(r Reading) error {
	services := s.target.Chain.Services
	if len(r.Asked) == 0 || len(services) == 0 {
		return nil
	}
	pid := services[0].PIDs[0]
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return fmt.Errorf("reading the environment of the running service back: %w", err)
	}
	running := map[string]string{}
	for entry := range strings.SplitSeq(string(b), "\x00") {
		if k, v, ok := strings.Cut(entry, "="); ok {
			running[k] = v
		}
	}
	for k, want := range r.Asked {
		if got, ok := running[k]; !ok || got != want {
			return fmt.Errorf("the running service has %s=%q in its environment, not %q", k, got, want)
		}
		r.Config[k] = want
	}
	return nil
}

// lookUp finds a key; dots lead into objects.
func lookUp(config map[string]any, key string) (any, bool) {
	if v, ok := config[key]; ok {
		return v, true
	}
	head, rest, ok := strings.Cut(key, ".")
	if inner, isMap := config[head].(map[string]any); ok && isMap {
		return lookUp(inner, rest)
	}
	return nil, false
}

// same compares texts, and numbers by their value: 0.1 is 1e-1.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y
}

// fromConfig finds what services of this laboratory tell under common names:
// sampling_rate, spans_dropped and spans_failed.
func (r *Reading) fromConfig() {
	number := func(key string) (float64, bool) {
		v, ok := lookUp(r.Config, key)
		if !ok {
			return 0, false
		}
		n, ok := v.(json.Number)
		if !ok {
			return 0, false
		}
		f, err := n.Float64()
		return f, err == nil
	}
	if enabled, ok := r.Config["tracing_enabled"].(bool); !ok || enabled {
		r.Rate, r.HasRate = number("sampling_rate")
	}
	dropped, ok := number("spans_dropped")
	failed, ok2 := number("spans_failed")
	if ok && ok2 && dropped >= 0 && failed >= 0 {
		r.Dropped, r.Counts = uint64(dropped+failed), true
		r.Lost = map[string]uint64{"dropped": uint64(dropped), "export_failed": uint64(failed)}
	}
}
