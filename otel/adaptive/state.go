package adaptive

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// State is a snapshot of the sampler: its rates, what it observed and what it
// decided. Its JSON names are stable: fields may be added, not changed.
type State struct {
	Time        time.Time `json:"time"`
	Description string    `json:"description"`
	Config      Config    `json:"config"`
	// Rate is what is sampled where no rule and no learned route says
	// otherwise, 0 to 1, after everything that changes it.
	Rate float64 `json:"rate"`
	// Boosts that are on for that rate.
	Boosts    Boosts    `json:"boosts"`
	Decisions Decisions `json:"decisions"`
	// Observations since the start, up to the end of the last interval.
	Observations Totals   `json:"observations"`
	Interval     Interval `json:"interval"`
	// Routes that were learned, by name; empty without WithRoutes.
	Routes   []RouteState  `json:"routes"`
	Rules    []RuleState   `json:"rules"`
	Pressure float64       `json:"pressure"` // 0 to 1
	Budget   BudgetState   `json:"budget"`
	Incident IncidentState `json:"incident"`
	Alerts   AlertTotals   `json:"alerts"`
}

// Boosts are the multipliers that are on.
type Boosts struct {
	Error   bool `json:"error"`
	Latency bool `json:"latency"`
}

// Decisions counts what this sampler decided since its start. Spans that
// followed a parent are not among them.
type Decisions struct {
	Total     uint64 `json:"total"`
	Sampled   uint64 `json:"sampled"`
	Unsampled uint64 `json:"unsampled"` // by the rate
	Never     uint64 `json:"never"`     // by a Never rule alone
	Capped    uint64 `json:"capped"`    // by the budget, although the rate said yes: not in th
}

// Totals of observed requests.
type Totals struct {
	Total  uint64 `json:"total"`
	Failed uint64 `json:"failed"`
	Slow   uint64 `json:"slow"` // above the latency threshold
}

// Interval is what was observed during the last one, which the boosts follow.
type Interval struct {
	Totals
	MeanMS float64 `json:"mean_ms"`
	P50MS  float64 `json:"p50_ms"`
	P95MS  float64 `json:"p95_ms"`
	P99MS  float64 `json:"p99_ms"`
	// Seconds that it took; 0 before the first has ended.
	Seconds float64 `json:"seconds"`
}

// RouteState is a learned route.
type RouteState struct {
	Route        string   `json:"route"`
	Rate         float64  `json:"rate"`
	Boosts       Boosts   `json:"boosts"`
	Observations Totals   `json:"observations"`
	Interval     Interval `json:"interval"`
}

// RuleState is a rule, in the order in which they are tried.
type RuleState struct {
	Match    json.RawMessage `json:"match"`
	Decision string          `json:"decision"` // never, always or base
	BaseRate float64         `json:"base_rate"`
	Rate     float64         `json:"rate"` // now, for routes that were not learned
}

// BudgetState says which limit holds the rates down, and by how much.
type BudgetState struct {
	// Factor that all rates but those of Always rules are multiplied with.
	Factor float64 `json:"factor"`
	// LimitedBy is traces, cpu, p99, or none.
	LimitedBy string `json:"limited_by"`
	// Demand is the traces a second that rates would sample without a budget.
	Demand float64 `json:"demand_traces_per_second"`
	Cores  float64 `json:"cpu_cores"` // that the process used during the last second
	P99MS  float64 `json:"p99_ms"`    // as last measured for the limit
}

// IncidentState is what raises the rate, and what did.
type IncidentState struct {
	Active []IncidentView `json:"active"`
	// Rate is the highest of the active ones for all routes, 0 for none.
	Rate float64 `json:"rate"`
	// FileError is what is wrong with the incident file as it is now.
	FileError string `json:"file_error,omitempty"`
	// Audit has the last 64 events, oldest first; AuditDropped counts older.
	Audit        []Event `json:"audit"`
	AuditDropped uint64  `json:"audit_dropped"`
}

// IncidentView is an active incident, or an alert that raises rates.
type IncidentView struct {
	Rate   float64    `json:"rate"`
	Route  string     `json:"route,omitempty"` // not there: all routes
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty"` // not there: while the file exists
	Source string     `json:"source"`
	Reason string     `json:"reason,omitempty"`
}

// State returns the state now.
func (s *Sampler) State() State {
	st := State{Time: s.clock(), Description: s.Description(), Rate: s.Rate(), Decisions: s.decisions()}
	n := s.snapshot.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Config = s.config
	st.Boosts = boostsOf(boost(s.rest.boost.Load()))
	st.Observations = s.totals
	st.Interval = s.interval(&s.last)
	st.Routes = []RouteState{}
	for name, r := range *s.routes.Load() {
		st.Routes = append(st.Routes, RouteState{
			Route: name, Rate: s.rateOf(r), Boosts: boostsOf(boost(r.boost.Load())),
			Observations: r.totals, Interval: s.interval(&r.last),
		})
	}
	slices.SortFunc(st.Routes, func(a, b RouteState) int { return strings.Compare(a.Route, b.Route) })
	st.Rules = []RuleState{}
	for i := range s.rules.Len() {
		r := s.rules.At(i)
		st.Rules = append(st.Rules, RuleState{
			Match: json.RawMessage(r.Rule.String()), Decision: r.Value.kind.String(), BaseRate: r.Value.base,
			Rate: n.entries[i+1][s.rest.boost.Load()].threshold.Probability(),
		})
	}
	st.Pressure = s.pressure()
	st.Budget = s.budget.state()
	st.Incident = s.incidents.state()
	st.Alerts = s.incidents.totals
	st.Alerts.Active = len(s.incidents.firing())
	return st
}

func (s *Sampler) decisions() Decisions {
	n := s.tally.sum()
	d := Decisions{Sampled: n[sampled], Unsampled: n[unsampled], Never: n[never], Capped: n[capped]}
	d.Total = d.Sampled + d.Unsampled + d.Never + d.Capped
	return d
}

func boostsOf(b boost) Boosts { return Boosts{Error: b&failing != 0, Latency: b&slow != 0} }

func (s *Sampler) interval(w *window) Interval {
	return Interval{
		Totals: Totals{Total: w.total, Failed: w.failed, Slow: w.slow},
		MeanMS: ms(w.mean()), P50MS: ms(w.quantile(0.5)), P95MS: ms(w.quantile(0.95)), P99MS: ms(w.quantile(0.99)),
		Seconds: s.length.Seconds(),
	}
}

func (b *budgetControl) state() BudgetState {
	f := b.factor()
	by := "none"
	switch {
	case f == 1:
	case f == b.traces:
		by = "traces"
	case f == b.cpu:
		by = "cpu"
	default:
		by = "p99"
	}
	return BudgetState{Factor: f, LimitedBy: by, Demand: b.demand, Cores: b.cores, P99MS: ms(b.duration)}
}

func (in *incidents) state() IncidentState {
	st := IncidentState{Active: []IncidentView{}, Rate: in.rate(), FileError: in.problem, Audit: slices.Clone(in.events), AuditDropped: in.dropped}
	if st.Audit == nil {
		st.Audit = []Event{}
	}
	for _, i := range in.active {
		if i != nil {
			st.Active = append(st.Active, i.view(""))
		}
	}
	for _, a := range in.firing() {
		st.Active = append(st.Active, a.view(a.route))
	}
	return st
}

func (i *Incident) view(route string) IncidentView {
	return IncidentView{Rate: i.Rate, Route: route, Since: i.Since, Until: untilOf(i), Source: i.Source, Reason: i.Reason}
}
