// Package collector is Tare's distribution of the OpenTelemetry Collector: its list of
// components, its default configuration, and `tare collector`.
//
// The framework reads configurations, builds pipelines, and starts and stops components.
// This package adds three things: refused requests are logged, a receiver that listens on
// the network must use TLS (or --plaintext be given), and a component that fails ends the
// process with an error.
//
// Tare's own components are packages below this one. They do not depend on it, so that
// other distributions can include them.
package collector
