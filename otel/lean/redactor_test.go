package lean

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/prototext"
)

// censor removes a word wherever it stands, and attributes of one key.
type censor struct{}

func (censor) Text(s string) string { return strings.ReplaceAll(s, "secret", "***") }

func (c censor) Attribute(kv attribute.KeyValue) (attribute.KeyValue, bool) {
	if kv.Key == "password" {
		return kv, false
	}
	switch kv.Value.Type() {
	case attribute.STRING:
		kv.Value = attribute.StringValue(c.Text(kv.Value.AsString()))
	case attribute.STRINGSLICE:
		v := kv.Value.AsStringSlice()
		for i := range v {
			v[i] = c.Text(v[i])
		}
		kv.Value = attribute.StringSliceValue(v)
	}
	return kv, true
}

// Nothing of what can be set on a span may pass the redactor by.
func TestRedactorSeesEverything(t *testing.T) {
	got := leanly(t, func(tp trace.TracerProvider) {
		const key, v = "key", "the secret"
		all := trace.WithAttributes(attribute.String(key, v), attribute.String("password", "secret"))
		_, span := tp.Tracer("t", trace.WithInstrumentationAttributes(attribute.String(key, v), attribute.String("password", "secret"))).
			Start(t.Context(), v, all, trace.WithLinks(trace.Link{Attributes: []attribute.KeyValue{attribute.String(key, v)}}))
		s := span.(*Span)
		s.SetAttributes(attribute.String("a", v), attribute.StringSlice("b", []string{v}))
		s.SetString("c", v)
		s.SetStrings("d", []string{v})
		s.SetInt("password", 1)
		s.AddEvent(v, all)
		s.AddLink(trace.Link{SpanContext: s.SpanContext(), Attributes: []attribute.KeyValue{attribute.String(key, v)}})
		s.RecordError(errors.New(v), all, trace.WithStackTrace(true))
		s.SetStatus(codes.Error, v)
		func() {
			defer func() { _ = recover() }()
			defer s.End()
			panic(v)
		}()
		_, s2 := tp.Tracer("t").Start(t.Context(), "n")
		s2.SetName(v)
		s2.End()
	}, WithRedactor(censor{}), WithResource(resource.NewSchemaless(attribute.String("key", "the secret"), attribute.String("password", "secret"))))
	text := ""
	for _, r := range got {
		text += prototext.Format(r)
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "password") {
		t.Error(text)
	}
	assert.Equal(t, 17, strings.Count(text, "the ***"), "redacted texts in %s", text)
	for _, s := range spansOf(got) {
		assert.EqualValues(t, 0, s.DroppedAttributesCount, "what the redactor leaves out was counted as dropped: %v", s)
	}
}
