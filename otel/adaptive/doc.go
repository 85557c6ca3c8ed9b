// Package adaptive is a sampler whose rate follows the service: it rises while
// requests fail or are slow, and falls before tracing costs more than it may.
//
//	sampler, err := adaptive.New()
//	...
//	defer sampler.Shutdown(ctx)
//	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), ...)
//	http.Handle("/adaptive-metrics", sampler.StateHandler())
//
// and for every request, sampled or not:
//
//	sampler.Observe(adaptive.Observation{Route: route, Failed: status >= 500, Duration: took})
//
// or, where every span is recorded, as a span processor: [Sampler.Processor].
//
// # Rates
//
// Every 30 s ([Config].UpdateInterval) the sampler looks at what ended since
// the last time. If a request failed, the base rate of 0.05 is multiplied by 3;
// if one took longer than 1 s, by 2; if both, by 6. This is the sampler of
// Hoikka 2026 (4.1.2, 4.4.4; docs/sources.md); a share of errors, the mean or a percentile can be asked for
// instead. Then, each with precedence over the one before:
//
//	incident   raises the rate to at least what it says, for a time
//	pressure   of the exporter multiplies it by 1 - pressure
//	MinRate    0.01, is the floor
//	MaxRate    1, is the ceiling, and wins over the floor
//	budget     multiplies all rates by one factor, below the floor if it must
//
// What is applied is within 1/4096 of that, because th has four digits.
//
// [WithRoutes] does the same for each route by itself, [WithRules] gives routes
// base rates of their own, or takes them out. Whatever [Always] matches is not
// multiplied; whatever [Never] matches is not sampled. Incidents, pressure and
// the budget act within a second, errors and latency at the interval's end.
//
// # Parents
//
// A span with a parent follows it, also if it comes from another service; see
// [WithoutParent]. Everything below is about traces that begin here.
//
// # Consistent probability
//
// A trace that is sampled says with which probability, as th in the
// tracestate's ot member, to four significant digits (package consistent). So
// counts can be scaled back to what arrived although rates change, and
// services with different rates agree: decisions compare the trace's own
// randomness (rv, or the trace id) with the threshold. What Always matches has
// probability 1.
//
// # Budget
//
// A limit of traces a second is kept in two ways. Each second the factor is
// set to what the arrivals of each route, counted exactly, allow. Against
// surges within the second there is a cap, a token bucket: in no 10 s (or the
// time of 20 traces, if that is longer) more traces begin than the limit
// allows for that time, Always rules included. What the cap drops is not in
// th: counts that are scaled back then miss that share. It is counted
// (decisions.capped), and the factor aims at 90% of the limit so that it stays
// rare.
//
// The CPU and p99 limits are feedback: while the process uses more CPU, or its
// requests take longer, the factor falls, to half each second at most; it
// rises by a tenth while there is room. They bound what tracing adds, not the
// service: if its own work is above the limit, tracing falls to next to
// nothing.
//
// # Incidents
//
// [Sampler.StartIncident], [Sampler.IncidentHandler] and [WithIncidentFile]
// raise the rate for a time, and then it ends by itself. The file's content is
//
//	{"rate":0.5, "duration":"15m", "reason":"checkout is slow"}
//
// where duration counts from when the file was written; or until with an RFC
// 3339 time; or neither: while the file exists. An empty file asks for 1.
// Replace it by renaming, or it is seen half written. A file that cannot be
// read ends the incident. Everything is in the state's audit, with who did it.
//
// # Alerts
//
// [Sampler.AlertHandler] receives the webhooks of Alertmanager: while an alert
// fires, the rate is at least what a rule says, by severity or other labels,
// for all routes or for one; when it is resolved, or its time is over, the rate
// goes back. Alerts are in the state and its audit beside incidents.
//
// # Metrics
//
// With [WithMeterProvider], all observable, under [ScopeName]; http.route on
// the first two for learned routes:
//
//	adaptive_sampler.rate             gauge    share that is sampled
//	adaptive_sampler.boost            gauge    multiplier by errors and latency
//	adaptive_sampler.budget.factor    gauge
//	adaptive_sampler.budget.demand    gauge    {trace}/s
//	adaptive_sampler.pressure         gauge
//	adaptive_sampler.incident.rate    gauge    0 for none
//	adaptive_sampler.decisions        counter  {trace}, outcome: sampled, unsampled, never, capped
//	adaptive_sampler.observations     counter  {request}, outcome: ok, failed
//	adaptive_sampler.alerts.active    gauge    {alert} that raise rates
//	adaptive_sampler.alerts.received  counter  {alert}, outcome: raised, repeated, resolved, ignored, over, full
//	adaptive_sampler.alerts.requests  counter  {request}, outcome: accepted, refused
//
// # What it refuses
//
// It does not decide when the work is done: one error among a hundred requests
// raises the rate for later ones, and is itself traced with the rate of its
// time; package keep keeps every failed request. It has no severity of
// errors: what failed is for the caller to say. It does not authenticate, but for
// the token of alerts: its handlers belong where only operators come.
package adaptive
