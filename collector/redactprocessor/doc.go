// Package redactprocessor is the collector's processor tare_redact: it removes sensitive
// values from spans before a later component stores or sends them. It applies package
// otel/redact, which describes the rules and detectors, and what they miss.
//
//	processors:
//	  tare_redact:                       # nothing set: redact.Default()
//	    base: default                    # or none
//	    without: [phone]
//	    rules:
//	      - {name: user, keys: ["enduser.*", user.id], do: hash}
//	      - {name: order, pattern: "ORD-[0-9]{8}", do: keep, keep: 2}
//	    allow: {safe: true, keys: ["shop.*"]}
//	    hash: {key_file: /run/secrets/redact, id: a}
//
// The keys are those of the library's JSON. rules_file takes base, without, rules and
// allow from a file in JSON or YAML instead, so that services and the collector can share
// one; hash may be in either.
//
// # What it reads
//
// Names of spans and events; attributes of spans, events, links, scopes and resources, of
// any type, in arrays and maps to a depth of 32; their keys; status messages; names and
// versions of scopes; schema URLs. A secret is redacted exactly as the library redacts it
// in a service, and hashes with the same key are equal.
//
// An allow list always includes Tare's own attributes (tare.*); otherwise the results of
// the agent, tare_tracer and tare_keep would be lost.
//
// If redaction makes two keys of a map equal, a number is appended to the second, because
// keys are unique in OTLP.
//
// # What it leaves alone
//
// Ids, times and trace states. A hash key is read once, at the start, and never shown:
// neither in errors nor in a printed configuration.
//
// # Metrics
//
//	tare_redact_redacted     values replaced, found inside texts, or removed, by rule
//	tare_redact_not_allowed  attributes dropped because the allow list lacks their key
//	tare_redact_unsettled    values masked as a whole: redacting the text did not end, or nested too deeply
package redactprocessor
