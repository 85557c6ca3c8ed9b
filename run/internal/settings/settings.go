// Package settings translates the flags of `tare run` into a collector's configuration,
// which is merged over the collector's default: maps by key, lists as a whole. It links
// nothing of a collector.
package settings

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// Settings are the flags.
type Settings struct {
	Store     string        // directory
	Page      string        // address; "" or "none" for none
	Retention time.Duration // age of the oldest trace
	MaxSize   string        // of the store, such as 10GiB
	OTLP      bool          // receive it, besides the agent's spans
	Metrics   string        // address of the collector's own metrics; "" or "none" for none
	Retro     string        // address of the coordinator of retroactive sampling; "" or "none" for none
	Verbose   bool          // log at level info
}

// Validate reports an invalid flag. The collector checks sizes and everything else that
// only it knows.
func (s *Settings) Validate() error {
	switch {
	case s.Store == "":
		return errors.New("--store needs a directory")
	case s.Retention <= 0:
		return errors.New("--retention must be positive, such as 7d")
	}
	for _, f := range []struct{ flag, address string }{{"--page", s.Page}, {"--collector-listen", s.Metrics}, {"--retro-listen", s.Retro}} {
		_, port, err := net.SplitHostPort(f.address)
		if _, perr := strconv.ParseUint(port, 10, 16); given(f.address) && (err != nil || perr != nil) {
			return fmt.Errorf(`%s: %q: allowed: address:port such as 127.0.0.1:4680, or "none"`, f.flag, f.address)
		}
	}
	return nil
}

func given(address string) bool { return address != "" && address != "none" }

// HasPage reports whether the page is served.
func (s *Settings) HasPage() bool { return given(s.Page) }

// Coordinator is where the coordinator of retroactive sampling is reached, as a list for the agent; none if it is off.
func (s *Settings) Coordinator() []string {
	if !given(s.Retro) {
		return nil
	}
	return []string{"http://" + s.Retro}
}

// YAML is the configuration. traced says whether there is an agent in this process, and
// listen is the address of its /metrics, "" for none. The settings must be valid.
func (s *Settings) YAML(traced bool, listen string) (string, error) {
	receivers, pipeline := map[string]any{}, []string{}
	if traced {
		receivers["tare_agent"] = nil // configured by its factory
		pipeline = append(pipeline, "tare_agent")
	}
	if s.OTLP {
		pipeline = append(pipeline, "otlp") // the default configuration has it, on loopback
	}
	extensions := map[string]any{
		"tare_store": map[string]any{
			"directory": s.Store,
			"retention": map[string]any{"age": s.Retention.String(), "size": s.MaxSize},
		},
	}
	use := []string{"tare_store"}
	if s.HasPage() {
		// Of the agent, if there is one here, and of the collector.
		health := []string{}
		for _, address := range []string{listen, s.Metrics} {
			if given(address) {
				health = append(health, "http://"+Reachable(address)+"/metrics")
			}
		}
		extensions["tare_page"] = map[string]any{"endpoint": s.Page, "store": "tare_store", "health": health}
		use = append(use, "tare_page")
	}
	if given(s.Retro) {
		extensions["tare_retro"] = map[string]any{"endpoint": s.Retro}
		use = append(use, "tare_retro")
	}
	b, err := yaml.Marshal(map[string]any{
		"receivers":  receivers,
		"extensions": extensions,
		"service": map[string]any{
			"extensions": use,
			"telemetry":  s.telemetry(),
			"pipelines":  map[string]any{"traces": map[string]any{"receivers": pipeline}},
		},
	})
	return string(b), err
}

// TracesOnly is a collector's configuration without its pipelines of log records and metrics, for whoever receives no
// OTLP: merging a configuration over another cannot remove anything.
func TracesOnly(config string) (string, error) {
	var c struct {
		Service struct {
			Pipelines map[string]any
			Rest      map[string]any `yaml:",inline"`
		}
		Rest map[string]any `yaml:",inline"`
	}
	if err := yaml.Unmarshal([]byte(config), &c); err != nil {
		return "", err
	}
	delete(c.Service.Pipelines, "logs")
	delete(c.Service.Pipelines, "metrics")
	b, err := yaml.Marshal(c)
	return string(b), err
}

// Reachable returns an address at which to reach a server that may listen on all
// addresses.
func Reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// telemetry configures the collector's own logs and metrics.
func (s *Settings) telemetry() map[string]any {
	level := "warn"
	if s.Verbose {
		level = "info"
	}
	logs := map[string]any{"level": level, "encoding": "console"}
	if !given(s.Metrics) {
		return map[string]any{"logs": logs, "metrics": map[string]any{"level": "none"}}
	}
	host, text, _ := net.SplitHostPort(s.Metrics) // valid
	port, _ := strconv.ParseUint(text, 10, 16)    // likewise
	return map[string]any{"logs": logs, "metrics": map[string]any{
		"level": "normal",
		"readers": []any{map[string]any{"pull": map[string]any{"exporter": map[string]any{
			"prometheus": map[string]any{"host": host, "port": port},
		}}}},
	}}
}
