// Package otlptest has what the tests of the exporters share: requests,
// certificates, an environment without variables of the machine. Tests only:
// it links the OTLP messages, which the HTTP exporter must not.
package otlptest
