// Package retry repeats an export that failed for a passing reason: with
// exponential back-off and jitter, as the OTLP specification asks for
// ("Retryable Response Codes", "OTLP/HTTP Throttling", "Failures"), within the
// caller's context and a limit of elapsed time.
//
// It does not decide what is worth repeating: an attempt says so by returning a
// [Transient] error.
package retry
