package lean

import (
	"reflect"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// The API hands options out only through NewSpanStartConfig, which copies every attribute into a
// new slice. An option of WithAttributes is itself a slice of attributes, though of a private
// type: reflection can look into it. If that ever changes, attributeOption is nil, and options
// are read the API's way.
var attributeOption = func() reflect.Type {
	t := reflect.TypeOf(trace.WithAttributes())
	if t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[attribute.KeyValue]() {
		return t
	}
	return nil
}()

// attributesOf returns the attributes of an option made by trace.WithAttributes, not copied.
func attributesOf(option any) ([]attribute.KeyValue, bool) {
	v := reflect.ValueOf(option)
	if !v.IsValid() || v.Type() != attributeOption {
		return nil, false
	}
	if v.Len() == 0 {
		return nil, true
	}
	first := v.Index(0).Addr().Interface().(*attribute.KeyValue)
	return unsafe.Slice(first, v.Len()), true
}

// apply reads the options of the API's Tracer.Start.
func (s *Start) apply(options []trace.SpanStartOption) {
	var others [4]trace.SpanStartOption
	n, attributes := 0, 0
	for _, o := range options {
		if kvs, ok := attributesOf(o); ok {
			s.Attributes = kvs
			attributes++
			continue
		}
		if n < len(others) {
			others[n] = o
		}
		n++
	}
	if attributes > 1 || n > len(others) {
		s.read(trace.NewSpanStartConfig(options...))
		return
	}
	if n > 0 {
		kvs := s.Attributes
		s.read(trace.NewSpanStartConfig(others[:n]...))
		s.Attributes = kvs
	}
}

func (s *Start) read(c trace.SpanConfig) {
	s.Kind, s.Time, s.Attributes = c.SpanKind(), c.Timestamp(), c.Attributes()
	s.Links, s.NewRoot = c.Links(), c.NewRoot()
}
