// Package contextaware is a sampler that chooses the probability by what is
// known when a trace starts: the span's name, kind and attributes, the baggage,
// and whatever a function of the program finds in the context (Hoikka 2026, 2.4:
// endpoints, users).
//
// The first rule that matches decides; where none does, the default holds.
// Probability 0 is never, 1 always:
//
//	{"default": 0.05, "rules": [
//	  {"attributes": {"url.path": "/health*"}, "probability": 0},
//	  {"attributes": {"url.path": "/auth/**"}, "probability": 0},
//	  {"baggage": {"user.id": "~^(17|42)$"}, "probability": 1},
//	  {"name": "POST /orders", "kind": "server", "probability": 0.5}
//	]}
//
// Patterns are those of package rule. The text comes from a file or from
// CONTEXT_SAMPLER_RULES ([FromEnv]), or rules are written in Go ([New]).
//
// By default the sampler is parent-based: rules are asked for root spans only.
// Decisions are consistent: sampled spans carry their threshold, so that counts
// can be scaled back although rules have different rates (package consistent).
//
// # What it refuses
//
// Probabilities outside 0 to 1, unknown fields, missing probabilities and
// broken patterns are errors that name the rule; a sampler with half of its
// rules does not exist. A rule cannot see what is only known later: status
// codes, errors, durations. That is what package keep is for.
//
// Baggage comes from whoever sends the request. A rule that samples more by
// baggage lets outsiders decide what tracing costs, unless the edge removes
// their baggage.
package contextaware
