// Package hosttest compiles the kernel side's parsers of outside bytes, tag.h
// and payload.h, for this machine, so that ordinary unprivileged tests and
// fuzzing reach them. Nothing else may import it.
package hosttest
