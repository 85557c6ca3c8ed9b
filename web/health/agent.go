package health

import (
	"cmp"
	"slices"
)

// Agent is the state of an agent; docs/agent.md explains each number.
type Agent struct {
	SamplingRatio float64            `json:"sampling_ratio"`
	Roots         Roots              `json:"roots"`
	Spans         float64            `json:"spans"`
	OpenSpans     float64            `json:"open_spans"`
	Lost          map[string]float64 `json:"lost"` // by reason
	Unlinked      map[string]float64 `json:"unlinked"`
	TagsIgnored   map[string]float64 `json:"tags_ignored"`
	Connections   map[string]float64 `json:"connections"`
	LeftOut       map[string]float64 `json:"left_out"`   // what has no room in the kernel side's tables
	Unanswered    []Peer             `json:"unanswered"` // the most requests first
	Programs      []Program          `json:"programs"`   // the costliest first
	Weight        Weight             `json:"weight"`
	Retro         *Retro             `json:"retro,omitempty"` // nil: off
}

// Retro is the state of retroactive sampling.
type Retro struct {
	Horizon float64 `json:"horizon_seconds"` // how far back the memory reaches; 0: not full yet
	Delay   float64 `json:"delay_seconds"`   // until the records of a kept trace are taken
	Kept    float64 `json:"kept"`            // traces, since the start
	Limited float64 `json:"limited"`         // requests that asked for their trace, and were too many
}

// Weight is what an agent takes: its process so far, and its kernel programs while they were timed.
type Weight struct {
	CPU      float64         `json:"cpu_seconds"`
	Memory   float64         `json:"memory_bytes"` // resident
	Exported float64         `json:"exported_bytes"`
	Seconds  float64         `json:"weighed_seconds"` // how long the kernel programs were timed
	Services []ServiceWeight `json:"services"`        // the heaviest first
}

// ServiceWeight is what kernel programs took on the sockets of a service.
type ServiceWeight struct {
	Name     string  `json:"name"` // "": of sockets that are not traced
	Requests float64 `json:"requests"`
	Seconds  float64 `json:"kernel_seconds"`
}

// Roots are root decisions.
type Roots struct {
	Sampled   float64 `json:"sampled"`
	Unsampled float64 `json:"unsampled"`
	Retro     float64 `json:"retro,omitempty"` // not sampled, and remembered
}

// Peer is one that does not answer the tags of requests.
type Peer struct {
	Address   string  `json:"address"`
	Requests  float64 `json:"requests"`   // since the last answer
	SendsTags bool    `json:"sends_tags"` // so it is traced
}

// Program is the cost of a kernel program, measured while BPF statistics are on.
type Program struct {
	Name     string  `json:"name"`
	Hook     string  `json:"hook"`
	Runs     float64 `json:"runs"`
	Seconds  float64 `json:"seconds"`
	NsPerRun float64 `json:"ns_per_run"` // 0 without runs
}

// agent returns nil unless the source has an agent's metrics.
func agent(s series) *Agent {
	if len(s["tare_roots_total"]) == 0 && len(s["tare_sampling_ratio"]) == 0 {
		return nil
	}
	roots := s.by("sampled", "tare_roots_total")
	a := &Agent{
		SamplingRatio: s.sum("tare_sampling_ratio"),
		Roots:         Roots{roots["true"], roots["false"], roots["retro"]},
		Spans:         s.sum("tare_spans_total"),
		OpenSpans:     s.sum("tare_open_spans"),
		Lost:          s.by("reason", "tare_lost_total"),
		Unlinked:      s.by("reason", "tare_unlinked_total"),
		TagsIgnored:   s.by("reason", "tare_tags_ignored_total"),
		Connections:   s.by("state", "tare_connections_total"),
		Unanswered:    []Peer{},
		LeftOut:       s.by("what", "tare_left_out"),
		Programs:      []Program{},
		Weight: Weight{
			CPU: s.sum("process_cpu_seconds_total"), Memory: s.sum("process_resident_memory_bytes"), Exported: s.sum("tare_export_bytes_total"),
			Seconds: s.sum("tare_weighed_seconds_total"), Services: []ServiceWeight{},
		},
	}
	if len(s["tare_retro_delay_seconds"]) > 0 {
		a.Retro = &Retro{
			Horizon: s.sum("tare_retro_horizon_seconds"), Delay: s.sum("tare_retro_delay_seconds"),
			Kept: s.sum("tare_retro_traces_total"), Limited: s.by("outcome", "tare_retro_triggers_total")["limited"],
		}
	}
	requests := s.by("service", "tare_weighed_requests_total")
	for name, seconds := range s.by("service", "tare_weighed_kernel_seconds_total") {
		a.Weight.Services = append(a.Weight.Services, ServiceWeight{name, requests[name], seconds})
	}
	slices.SortFunc(a.Weight.Services, func(x, y ServiceWeight) int {
		return cmp.Or(cmp.Compare(y.Seconds, x.Seconds), cmp.Compare(x.Name, y.Name))
	})
	for _, m := range s["tare_unanswered_tags"] {
		a.Unanswered = append(a.Unanswered, Peer{m.Labels["peer"], m.Value, m.Labels["sends_tags"] == "true"})
	}
	slices.SortFunc(a.Unanswered, func(x, y Peer) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Address, y.Address))
	})
	type key struct{ program, hook string }
	at := map[key]*Program{}
	find := func(m Metric) *Program {
		k := key{m.Labels["program"], m.Labels["hook"]}
		if at[k] == nil {
			at[k] = &Program{Name: k.program, Hook: k.hook}
		}
		return at[k]
	}
	for _, m := range s["tare_bpf_program_runs_total"] {
		find(m).Runs += m.Value
	}
	for _, m := range s["tare_bpf_program_run_seconds_total"] {
		find(m).Seconds += m.Value
	}
	for _, p := range at {
		if p.Runs > 0 {
			p.NsPerRun = p.Seconds / p.Runs * 1e9
		}
		a.Programs = append(a.Programs, *p)
	}
	slices.SortFunc(a.Programs, func(x, y Program) int {
		return cmp.Or(cmp.Compare(y.Seconds, x.Seconds), byName(x, y))
	})
	return a
}
