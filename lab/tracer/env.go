package tracer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/scrape"
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
	// sampling keeps its connection: it asks while the service is measured.
	sampling *http.Client
}

func newService(t Target) *service {
	return &service{
		target:   t,
		sampling: &http.Client{Transport: &http.Transport{}, Timeout: scrape.Within},
	}
}

func (*service) PIDs() []int  { return nil }
func (*service) Alive() error { return nil }

func (s *service) Stop() error {
	s.sampling.CloseIdleConnections()
	return nil
}

// ReadBack asks the service at the workload's read_back path. Where it has none,
// the environment of the running process is the best there is. Other services
// that are the same program must say the same, and the spans that they lost are
// added up.
func (s *service) ReadBack(ctx context.Context) (Reading, error) {
	t := s.target
	r := Reading{Asked: t.Variant.Environment(t.Sink), Config: map[string]any{}}
	if t.Workload.ReadBack == "" {
		if err := s.environment(r); err != nil {
			return r, err
		}
	} else if err := s.ask(ctx, s.front(), r.Config); err != nil {
		return r, err
	}
	if err := s.expected("service", r.Config); err != nil {
		return r, err
	}
	r.fromConfig()
	if err := s.behind(ctx, &r); err != nil {
		return r, err
	}
	return r, s.decisions(ctx, &r)
}

// front is where the service that clients ask first, directly or by a proxy, is asked itself.
func (s *service) front() string {
	if s.target.Chain.Proxies() == 0 {
		return s.target.Chain.Entry
	}
	first, _ := s.target.Chain.Front()
	return net.JoinHostPort(first.Host, strconv.Itoa(first.Port))
}

// behind asks the services behind the entry that are the same program.
func (s *service) behind(ctx context.Context, r *Reading) error {
	t := s.target
	if t.Workload.ReadBack == "" {
		return nil
	}
	_, others := t.Chain.Front()
	for _, other := range others {
		if !other.Alike {
			continue
		}
		of := Reading{Config: map[string]any{}}
		if err := s.ask(ctx, net.JoinHostPort(other.Host, strconv.Itoa(other.Port)), of.Config); err != nil {
			return err
		}
		if err := s.expected("service "+other.Name, of.Config); err != nil {
			return err
		}
		of.fromConfig()
		if r.Counts = r.Counts && of.Counts; !r.Counts {
			continue
		}
		r.Dropped += of.Dropped
		for reason, n := range of.Lost {
			r.Lost[reason] += n
		}
	}
	return nil
}

// expected says in what a configuration is not the variant's.
func (s *service) expected(who string, config map[string]any) error {
	v := s.target.Variant
	for key, want := range v.Expected(s.target.Sink) {
		got, ok := lookUp(config, key)
		if !ok {
			return fmt.Errorf("%s: the running %s does not tell %q: it says %v", v.Name, who, key, config)
		}
		if text := fmt.Sprint(got); !same(text, want) {
			return fmt.Errorf("%s: the running %s says %s=%s, and should say %s", v.Name, who, key, text, want)
		}
	}
	return nil
}

// ask gets the configuration of the service at host:port as JSON.
func (s *service) ask(ctx context.Context, host string, into map[string]any) error {
	url := "http://" + host + s.target.Workload.ReadBack
	body, err := get(ctx, scrape.Once, url)
	if err != nil {
		return fmt.Errorf("reading the running configuration back: %w", err)
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
	first, _ := s.target.Chain.Front()
	if len(r.Asked) == 0 || len(first.PIDs) == 0 {
		return nil
	}
	pid := first.PIDs[0]
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
