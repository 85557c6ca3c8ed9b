package redact

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Span returns s as it may leave: s itself if it is clean, else a view in which
// name, attributes, events, links, status, scope and resource are redacted.
// The work is done here, once; the view only hands out its results.
//
// DroppedAttributes counts what limits dropped, as before: what redaction
// removes is in Stats.
func (r *Redactor) Span(s sdktrace.ReadOnlySpan) sdktrace.ReadOnlySpan {
	v, changed := r.view(s)
	if !changed {
		return s
	}
	return v
}

// view is a redacted span. Ids, times, kind and counts are the original's.
type view struct {
	sdktrace.ReadOnlySpan
	name       string
	attributes []attribute.KeyValue
	events     []sdktrace.Event
	links      []sdktrace.Link
	status     sdktrace.Status
	scope      instrumentation.Scope
	resource   *resource.Resource
}

func (v *view) Name() string                                { return v.name }
func (v *view) Attributes() []attribute.KeyValue            { return v.attributes }
func (v *view) Events() []sdktrace.Event                    { return v.events }
func (v *view) Links() []sdktrace.Link                      { return v.links }
func (v *view) Status() sdktrace.Status                     { return v.status }
func (v *view) Resource() *resource.Resource                { return v.resource }
func (v *view) InstrumentationScope() instrumentation.Scope { return v.scope }

// InstrumentationLibrary is what the interface still asks for.
//
// Deprecated: use InstrumentationScope.
func (v *view) InstrumentationLibrary() instrumentation.Scope { return v.scope }

func (r *Redactor) view(s sdktrace.ReadOnlySpan) (*view, bool) {
	name, status, scope, res := s.Name(), s.Status(), s.InstrumentationScope(), s.Resource()
	attributes, events, links := s.Attributes(), s.Events(), s.Links()

	newName := r.Name(name)
	newDescription := r.Text(status.Description)
	newScope := scope
	if scope.Attributes.Len() > 0 {
		newScope = r.Scope(scope)
	}
	newResource := r.Resource(res)
	newAttributes := r.attributes(attributes)
	newEvents := r.events(events)
	newLinks := r.links(links)

	changed := newName != name || newDescription != status.Description || newResource != res || newScope != scope ||
		differs(newAttributes, attributes) || differs(newEvents, events) || differs(newLinks, links)
	if !changed {
		return nil, false
	}
	status.Description = newDescription
	return &view{s, newName, newAttributes, newEvents, newLinks, status, newScope, newResource}, true
}

// differs reports whether redaction has made a copy.
func differs[T any](a, b []T) bool {
	return len(a) != len(b) || len(a) > 0 && &a[0] != &b[0]
}

func (r *Redactor) events(in []sdktrace.Event) []sdktrace.Event {
	var out []sdktrace.Event
	for i, e := range in {
		name, attrs := r.Name(e.Name), r.attributes(e.Attributes)
		if name == e.Name && !differs(attrs, e.Attributes) {
			continue
		}
		if out == nil {
			out = append([]sdktrace.Event(nil), in...)
		}
		out[i].Name, out[i].Attributes = name, attrs
	}
	if out == nil {
		return in
	}
	return out
}

func (r *Redactor) links(in []sdktrace.Link) []sdktrace.Link {
	var out []sdktrace.Link
	for i, l := range in {
		attrs := r.attributes(l.Attributes)
		if !differs(attrs, l.Attributes) {
			continue
		}
		if out == nil {
			out = append([]sdktrace.Link(nil), in...)
		}
		out[i].Attributes = attrs
	}
	if out == nil {
		return in
	}
	return out
}
