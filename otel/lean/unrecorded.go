package lean

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Unrecorded is a span that the sampler dropped: it carries its identity to its children and does
// nothing else. The zero Unrecorded is memory for Tracer.DropIn, nothing else.
type Unrecorded struct {
	ctx carrier[Unrecorded]
	*origin
	sc trace.SpanContext
}

var _ trace.Span = (*Unrecorded)(nil)

// SpanContext is the span's identity.
func (s *Unrecorded) SpanContext() trace.SpanContext { return s.sc }

// TracerProvider returns the *lean.TracerProvider that the span came from.
func (s *Unrecorded) TracerProvider() trace.TracerProvider { return s.p }

// IsRecording is false.
func (s *Unrecorded) IsRecording() bool { return false }

// End does nothing.
func (s *Unrecorded) End(...trace.SpanEndOption) {}

// AddEvent does nothing.
func (s *Unrecorded) AddEvent(string, ...trace.EventOption) {}

// AddLink does nothing.
func (s *Unrecorded) AddLink(trace.Link) {}

// RecordError does nothing.
func (s *Unrecorded) RecordError(error, ...trace.EventOption) {}

// SetStatus does nothing.
func (s *Unrecorded) SetStatus(codes.Code, string) {}

// SetName does nothing.
func (s *Unrecorded) SetName(string) {}

// SetAttributes does nothing.
func (s *Unrecorded) SetAttributes(...attribute.KeyValue) {}
