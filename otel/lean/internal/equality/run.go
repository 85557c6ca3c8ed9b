package equality

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/propagation"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Span is one exported span with all that stood around it in the request.
type Span struct {
	*tracepb.Span
	Surroundings

	around []byte // all but the span itself, encoded; canonical sets it
}

// Surroundings are what the spans of a scope share.
type Surroundings struct {
	Scope          *commonpb.InstrumentationScope
	ScopeSchema    string
	Resource       *resourcepb.Resource
	ResourceSchema string
}

// A Result is what one program did on one pipeline.
type Result struct {
	Pipeline string
	Spans    []*Span
	Notes    []string
	// From and To enclose the run.
	From, To time.Time
}

// slack is how far a clock may be set while a program runs, without its times counting as given by the
// program: those are decades away.
const slack = time.Hour

// Run runs a program on a pipeline, with ids by counting or with those that the provider makes; a program
// that brings its own generator has that. An error means that the result cannot be trusted.
func Run(p Program, pipe Pipeline, r *Receiver, counting bool) (Result, error) {
	restore, err := setenv(p.Environ)
	defer restore()
	if err != nil {
		return Result{}, err
	}

	e := &Env{Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})}
	var o Options
	if p.Options != nil {
		o = p.Options(e)
	}
	if counting && o.IDs == nil {
		o.IDs = NewIDs()
	}
	inbox, closeInbox := r.Open()
	defer closeInbox()
	provider, err := pipe.New(o, inbox.URL, r.Client())
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", pipe.Name, err)
	}
	e.TracerProvider, e.Flush, e.Shutdown = provider, provider.ForceFlush, provider.Shutdown

	ctx := context.Background()
	result := Result{Pipeline: pipe.Name, From: time.Now().Add(-slack)}
	p.Run(ctx, e)
	// Flush and shutdown must each do; a program that wants only one calls it.
	err = errors.Join(provider.ForceFlush(ctx), provider.Shutdown(ctx))
	result.To = time.Now().Add(slack)
	result.Notes = e.notes

	requests, errs := inbox.take()
	err = errors.Join(append(errs, err)...)
	for _, request := range requests {
		spans, bad := flatten(request)
		result.Spans, err = append(result.Spans, spans...), errors.Join(err, bad)
	}
	if err != nil {
		return result, fmt.Errorf("%s: %w", pipe.Name, err)
	}
	return result, nil
}

// flatten lists the spans of a request; what no request may be is an error.
func flatten(request *collector.ExportTraceServiceRequest) ([]*Span, error) {
	var out []*Span
	if len(request.GetResourceSpans()) == 0 {
		return nil, errors.New("a request without spans")
	}
	if err := known(request); err != nil {
		return nil, err
	}
	for _, rs := range request.GetResourceSpans() {
		if len(rs.GetScopeSpans()) == 0 {
			return nil, errors.New("a resource without spans")
		}
		if err := known(rs); err != nil {
			return nil, err
		}
		for _, ss := range rs.GetScopeSpans() {
			if len(ss.GetSpans()) == 0 {
				return nil, errors.New("a scope without spans")
			}
			if err := known(ss); err != nil {
				return nil, err
			}
			group := Surroundings{ss.GetScope(), ss.GetSchemaUrl(), rs.GetResource(), rs.GetSchemaUrl()}
			for _, s := range ss.GetSpans() {
				out = append(out, &Span{Span: s, Surroundings: group})
			}
		}
	}
	return out, nil
}

// known fails if a message has fields that OTLP has not: who writes protobuf by hand may get a number
// wrong. In spans, scopes and resources the comparison sees them.
func known(m proto.Message) error {
	if u := m.ProtoReflect().GetUnknown(); len(u) > 0 {
		return fmt.Errorf("%s has fields that OTLP has not: %x", m.ProtoReflect().Descriptor().Name(), []byte(u))
	}
	return nil
}

// setenv sets variables and returns what undoes it. Programs run one after the other for this reason.
func setenv(environ map[string]string) (func(), error) {
	var undo []func() error
	restore := func() {
		for _, f := range undo {
			_ = f() // the variable was there before, under the same name
		}
	}
	for k, v := range environ {
		old, was := os.LookupEnv(k)
		if err := os.Setenv(k, v); err != nil {
			return restore, err
		}
		undo = append(undo, func() error {
			if was {
				return os.Setenv(k, old)
			}
			return os.Unsetenv(k)
		})
	}
	return restore, nil
}
