package lean

import (
	"context"
	"encoding/binary"
	"reflect"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// known is a sampler of the SDK that this package evaluates itself: calling it through
// sdktrace.Sampler would be a third of the cost of an unsampled span. ParentBased is recognized with
// its default options only.
type known struct {
	bound       uint64 // sampled: the trace id's bits 1 to 63 are below
	parentBased bool
}

// sampled is the sampler's answer. parent is the parent's flags, if it has a valid parent.
func (k *known) sampled(id trace.TraceID, hasParent bool, parent trace.TraceFlags) bool {
	if k.parentBased && hasParent {
		return parent.IsSampled()
	}
	return binary.BigEndian.Uint64(id[8:])>>1 < k.bound
}

// recognize returns a sampler of the SDK as a known one, after checking that it answers as expected.
// For any other it returns nil, and the sampler itself is called.
func recognize(s sdktrace.Sampler) *known {
	k, ok := takeApart(reflect.ValueOf(s))
	if !ok || !k.answersAs(s) {
		return nil
	}
	return &k
}

var (
	alwaysType = reflect.TypeOf(sdktrace.AlwaysSample())
	neverType  = reflect.TypeOf(sdktrace.NeverSample())
	ratioType  = reflect.TypeOf(sdktrace.TraceIDRatioBased(0.5))
	parentType = reflect.TypeOf(sdktrace.ParentBased(sdktrace.AlwaysSample()))
)

func takeApart(v reflect.Value) (known, bool) {
	if !v.IsValid() {
		return known{}, false
	}
	switch v.Type() {
	case alwaysType:
		return known{bound: 1 << 63}, true
	case neverType:
		return known{}, true
	case ratioType:
		if v.Kind() == reflect.Pointer {
			if f := v.Elem().FieldByName("traceIDUpperBound"); f.IsValid() && f.Kind() == reflect.Uint64 {
				return known{bound: f.Uint()}, true
			}
		}
	case parentType:
		if v.Kind() != reflect.Struct {
			break
		}
		root, config := v.FieldByName("root"), v.FieldByName("config")
		if !root.IsValid() || root.Kind() != reflect.Interface || !config.IsValid() || config.Kind() != reflect.Struct {
			break
		}
		for name, t := range map[string]reflect.Type{
			"remoteParentSampled": alwaysType, "remoteParentNotSampled": neverType,
			"localParentSampled": alwaysType, "localParentNotSampled": neverType,
		} {
			f := config.FieldByName(name)
			if !f.IsValid() || f.Kind() != reflect.Interface || f.IsNil() || f.Elem().Type() != t {
				return known{}, false
			}
		}
		k, ok := takeApart(root.Elem())
		if k.parentBased {
			return known{}, false
		}
		k.parentBased = true
		return k, ok
	}
	return known{}, false
}

// answersAs tests whether k answers as s does: the SDK may change.
func (k *known) answersAs(s sdktrace.Sampler) bool {
	state, err := trace.ParseTraceState("a=b")
	if err != nil {
		return false
	}
	for i := range 512 {
		id := newTraceID()
		if i < 64 { // ids about the bound
			binary.BigEndian.PutUint64(id[8:], (k.bound+uint64(i)-32)<<1)
		}
		parent := trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: trace.TraceFlags(i & 1), Remote: i&2 != 0, TraceState: state,
		})
		if i&4 != 0 {
			parent = trace.SpanContext{}
		}
		r := s.ShouldSample(sdktrace.SamplingParameters{
			ParentContext: trace.ContextWithSpanContext(context.Background(), parent), TraceID: id, Name: "probe",
		})
		want := sdktrace.Drop
		if k.sampled(id, parent.IsValid(), parent.TraceFlags()) {
			want = sdktrace.RecordAndSample
		}
		if r.Decision != want || len(r.Attributes) > 0 || r.Tracestate.String() != parent.TraceState().String() {
			return false
		}
	}
	return true
}
