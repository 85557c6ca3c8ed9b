// Package jaeger answers the HTTP query API of Jaeger's query service from
// Tare's store, as Jaeger's own page and Grafana's Jaeger data source ask it:
// services, operations, searches, traces by id, dependencies. That API has no
// written contract; this follows what the query service (1.x, and 2.x at
// /api) takes and answers. It has no archive, no metrics and no /api/v3.
//
// Unlike package api it ignores parameters that it does not know: its clients
// send some of their own.
package jaeger
