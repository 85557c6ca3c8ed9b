// Package redactprocessor is the collector's processor tare_redact: it takes
// sensitive values out of spans before anything behind it stores or sends them.
// It applies package otel/redact, where the rules and detectors are described,
// and what they miss.
//
//	processors:
//	  tare_redact:                       # nothing given: redact.Default()
//	    base: default                    # or none
//	    without: [phone]
//	    rules:
//	      - {name: user, keys: ["enduser.*", user.id], do: hash}
//	      - {name: order, pattern: "ORD-[0-9]{8}", do: keep, keep: 2}
//	    allow: {safe: true, keys: ["shop.*"]}
//	    hash: {key_file: /run/secrets/redact, id: a}
//
// The keys are those of the library's JSON. rules_file takes base, without,
// rules and allow from a file in JSON or YAML instead, so that services and
// collector can share one; hash may stand in either.
//
// # Where it looks
//
// Names of spans and events; attributes of spans, events, links, scopes and
// resources, of any type, in arrays and maps to a depth of 32; their keys;
// status messages; names and versions of scopes; schema URLs. The same secret in
// the same text is treated as the library treats it in a service, and a hash
// under the same key is the same.
//
// In allow-list mode the attributes of this project's own (tare.*) are allowed,
// too: what the agent, tare_tracer and tare_keep found out would be lost
// otherwise.
//
// Two keys of one map that become the same by redaction are told apart by a
// number behind the second, as OTLP wants keys to be unique.
//
// # What it refuses
//
// Ids, times and trace states are not touched. A hash key is read once, at the
// start, and never shown: not in errors, not in a printed configuration.
//
// # Metrics
//
//	tare_redact_redacted     values replaced, found inside texts, or removed, by rule
//	tare_redact_not_allowed  attributes dropped because the allow list lacks their key
//	tare_redact_unsettled    texts given up, and values nested too deeply, which are masked
package redactprocessor
