// Package jaeger serves the HTTP query API of Jaeger's query service from Tare's store,
// for Jaeger's own page and Grafana's Jaeger data source: services, operations, searches,
// traces by id, dependencies. That API is not specified; this package follows what the
// query service (1.x, and 2.x at /api) accepts and answers. It has no archive, no metrics
// and no /api/v3.
//
// Unlike package api it ignores unknown parameters, because its clients send some of
// their own.
package jaeger
