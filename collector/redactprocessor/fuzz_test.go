package redactprocessor

import (
	"context"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/redact"
)

var (
	unmarshaler ptrace.JSONUnmarshaler
	marshaler   ptrace.JSONMarshaler
	wire        ptrace.ProtoMarshaler
)

// everyAction has a rule for every action.
func everyAction(t testing.TB) *redactor {
	c := redact.Default()
	for i := range c.Rules {
		switch c.Rules[i].Name {
		case "email", "user":
			c.Rules[i].Do = redact.Hash
		case "card", "signatures":
			c.Rules[i].Do = redact.Keep
		case "phone":
			c.Rules[i].Do = redact.Remove
		}
	}
	c.Rules = append(c.Rules, redact.Rule{Name: "cut", Keys: []string{"cut*"}, Do: redact.Truncate, Length: 3})
	c.Hash = redact.Hashing{Key: "0123456789abcdef"}
	return newRedactor(t, c)
}

// FuzzProcess sends arbitrary OTLP. Nothing panics, valid UTF-8 stays valid, no span is
// lost, and redacting again changes nothing.
func FuzzProcess(f *testing.F) {
	for _, td := range []ptrace.Traces{ptrace.NewTraces(), dirtyTraces(1), nested()} {
		b, err := wire.MarshalTraces(td)
		require.NoError(f, err)
		f.Add(b)
	}
	plain, mixed := newRedactor(f, redact.Default()), everyAction(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, r := range []*redactor{plain, mixed} {
			td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
			if err != nil {
				return
			}
			spans, valid := td.SpanCount(), validTexts(td)
			once := processBytes(t, r, td)
			assert.Equal(t, spans, td.SpanCount(), "spans")
			if valid && !validTexts(td) {
				t.Errorf("valid UTF-8 became invalid: %q", once)
			}
			assert.Equal(t, processBytes(t, r, td), once)
		}
	})
}

func processBytes(t *testing.T, r *redactor, td ptrace.Traces) []byte {
	t.Helper()
	if _, err := r.process(context.Background(), td); err != nil {
		t.Fatal(err)
	}
	b, err := wire.MarshalTraces(td)
	require.NoError(t, err)
	return b
}

func nested() ptrace.Traces {
	td, sp := oneSpan()
	sp.SetName("x a@example.com")
	// Small, for what is found is made smaller still, byte by byte.
	in := sp.Attributes().PutEmptyMap("m")
	in.PutEmptyBytes("cut").FromRaw([]byte("\xffabcd"))
	in.PutInt("a@example.com", card)
	s := in.PutEmptySlice("user.id")
	s.AppendEmpty().SetDouble(card)
	s.AppendEmpty().SetEmptyMap().PutBool("pin", true)
	in.PutEmpty("empty")
	return td
}

// validTexts reports whether all texts are UTF-8.
func validTexts(td ptrace.Traces) bool {
	ok := true
	for _, rs := range td.ResourceSpans().All() {
		ok = ok && utf8.ValidString(rs.SchemaUrl()) && validMap(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			ok = ok && utf8.ValidString(ss.SchemaUrl()+ss.Scope().Name()+ss.Scope().Version()) && validMap(ss.Scope().Attributes())
			for _, s := range ss.Spans().All() {
				ok = ok && utf8.ValidString(s.Name()) && utf8.ValidString(s.Status().Message()) && validMap(s.Attributes())
				for _, e := range s.Events().All() {
					ok = ok && utf8.ValidString(e.Name()) && validMap(e.Attributes())
				}
				for _, l := range s.Links().All() {
					ok = ok && validMap(l.Attributes())
				}
			}
		}
	}
	return ok
}

func validMap(m pcommon.Map) bool {
	for key, v := range m.All() {
		if !utf8.ValidString(key) || !validValue(v) {
			return false
		}
	}
	return true
}

func validValue(v pcommon.Value) bool {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return utf8.ValidString(v.Str())
	case pcommon.ValueTypeMap:
		return validMap(v.Map())
	case pcommon.ValueTypeSlice:
		for _, e := range v.Slice().All() {
			if !validValue(e) {
				return false
			}
		}
	}
	return true
}
