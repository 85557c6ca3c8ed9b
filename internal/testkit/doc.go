// Package testkit is what the tests of this module have in common: waiting for an event with a deadline, processes
// that a test starts, free ports, a receiver of OTLP.
//
// A test waits for events and never for a time. What is waited for, and the CPU time of processes, are attributes of
// the test, from which `make test-times` makes its table.
package testkit
