// Package integration holds tests only: they run the tare binary as a user
// would (flags, files, signals, OTLP, /metrics) against real services under
// load, and hold what comes out against the ground truth, the number that
// every request carries. Nothing else of this module may import it.
//
// The tests need root. Without it they are skipped with a reason; with CI=true
// in the environment they fail instead. They talk to loopback and to network
// namespaces of their own, and end only what they started.
package integration
