package health

import (
	"strconv"
	"strings"
)

// neutral are the labels whose values name no service, host or peer.
var neutral = map[string]bool{
	"reason": true, "state": true, "what": true, "sampled": true, "sends_tags": true, "program": true, "hook": true, "tier": true,
	"kind": true, "direction": true, "family": true, "version": true, "status": true, "quantile": true, "le": true,
	"protocol": true, "status_class": true, "error": true, "decision": true, "signal": true, "outcome": true,
	"transport": true, "data_type": true, "otel_signal": true,
	"otel_scope_name": true, "otel_scope_version": true, "otel_scope_schema_url": true,
}

// Restrict returns what a reader gets who may see only the services that may tells: of the sources no address and
// no text of an error, and of metrics those whose labels name nothing else. Sums over all services name none.
func Restrict(sources []Source, may func(service string) bool) []Source {
	out := make([]Source, len(sources))
	for i, s := range sources {
		to := Source{URL: "source " + strconv.Itoa(i+1), Up: s.Up, Metrics: []Metric{}}
		if s.Error != "" {
			to.Error = "did not answer as it should"
		}
		for _, m := range s.Metrics {
			if allowed(m, may) {
				to.Metrics = append(to.Metrics, m)
			}
		}
		if s.Agent != nil {
			a := *s.Agent
			a.Unanswered, a.Weight.Services = []Peer{}, []ServiceWeight{}
			for _, w := range s.Agent.Weight.Services {
				if may(w.Name) {
					a.Weight.Services = append(a.Weight.Services, w)
				}
			}
			to.Agent = &a
		}
		if s.Collector != nil {
			c := *s.Collector
			c.Kept = map[string]float64{} // names of rules, which may be of services
			to.Collector = &c
		}
		out[i] = to
	}
	return out
}

func allowed(m Metric, may func(service string) bool) bool {
	for label, value := range m.Labels {
		switch {
		case label == "service" || label == "service_name":
			if !may(value) {
				return false
			}
		case strings.HasPrefix(m.Name, "tare_keep_"): // names of rules, which may be of services
			return false
		case label == "receiver" || label == "processor" || label == "exporter":
			if strings.Contains(value, "/") { // what follows is a name that somebody chose
				return false
			}
		case !neutral[label]:
			return false
		}
	}
	return true
}
