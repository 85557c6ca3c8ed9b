// Package collector is Tare's distribution of the OpenTelemetry Collector: which
// components are in it, its default configuration, and `tare collector`.
//
// The framework does the work: it reads configurations, builds pipelines, starts
// and stops components. This package adds what the framework leaves open: a
// refused request is logged, what listens to the network says how it is
// protected, and a component that fails ends the process with an error.
//
// Components of Tare's own are packages below this one, and know nothing of it:
// each fits into a distribution that somebody else builds.
package collector
