package redactprocessor

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/otel/redact"
)

const card = 4111111111111111

func process(t testing.TB, r *redactor, fill func(pcommon.Map)) map[string]any {
	t.Helper()
	td, s := oneSpan()
	fill(s.Attributes())
	if _, err := r.process(context.Background(), td); err != nil {
		t.Fatal(err)
	}
	return s.Attributes().AsRaw()
}

func equal(t *testing.T, got, want map[string]any) {
	t.Helper()
	a, b := pcommon.NewMap(), pcommon.NewMap()
	require.NoError(t, a.FromRaw(got))
	require.NoError(t, b.FromRaw(want))
	assert.True(t, a.Equal(b), "got  %v\nwant %v", got, want)
}

func TestEveryType(t *testing.T) {
	r := newRedactor(t, redact.Default())
	got := process(t, r, func(m pcommon.Map) {
		m.PutInt("n", card)
		m.PutInt("small", 7)
		m.PutDouble("x", card)
		m.PutDouble("half", 0.5)
		m.PutBool("b", true)
		m.PutEmpty("empty")
		m.PutEmptyBytes("raw").FromRaw([]byte{0xff, 0xfe})
		m.PutEmptyBytes("text").FromRaw([]byte("to anna@example.com"))
		s := m.PutEmptySlice("numbers")
		s.AppendEmpty().SetInt(card)
		s.AppendEmpty().SetInt(8)
	})
	equal(t, got, map[string]any{
		"n": "REDACTED", "small": int64(7), "x": "REDACTED", "half": 0.5, "b": true, "empty": nil,
		"raw": []byte{0xff, 0xfe}, "text": []byte("to REDACTED"), "numbers": []any{"REDACTED", int64(8)},
	})
}

// A rule by key replaces values of every type.
func TestKeyRuleOfEveryType(t *testing.T) {
	r := newRedactor(t, redact.Default())
	got := process(t, r, func(m pcommon.Map) {
		m.PutInt("password", 1)
		m.PutBool("app.secret", true)
		m.PutEmptyMap("api_key").PutStr("a", "b")
		m.PutEmptyBytes("token").FromRaw([]byte{1})
		m.PutEmpty("cookie")
		texts := m.PutEmptySlice("session.id")
		texts.AppendEmpty().SetStr("x")
		texts.AppendEmpty().SetStr("y")
		mixed := m.PutEmptySlice("auth")
		mixed.AppendEmpty().SetStr("x")
		mixed.AppendEmpty().SetInt(1)
		m.PutEmptySlice("pin")
		m.PutStr("process.command_line", "app -p hunter2")
		in := m.PutEmptyMap("request")
		in.PutStr("password", "hunter2")
		in.PutStr("process.command_line", "app -p hunter2")
		in.PutStr("path", "/x")
	})
	equal(t, got, map[string]any{
		"password": "REDACTED", "app.secret": "REDACTED", "api_key": "REDACTED", "token": "REDACTED", "cookie": "REDACTED",
		"session.id": []any{"REDACTED", "REDACTED"}, "auth": "REDACTED", "pin": []any{},
		"request": map[string]any{"password": "REDACTED", "path": "/x"},
	})
	assert.EqualValues(t, 2, r.rules.Stats().Redacted["command-line"])
}

// The hash of a value equals the one that the library makes in a service.
func TestHashesAgreeWithTheLibrary(t *testing.T) {
	c := redact.Config{Rules: []redact.Rule{{Name: "all", Keys: []string{"*"}, Do: redact.Hash}}, Hash: redact.Hashing{Key: strings.Repeat("k", 16)}}
	r := newRedactor(t, c)
	got := process(t, r, func(m pcommon.Map) {
		m.PutStr("s", "anna")
		m.PutInt("i", -5)
		m.PutDouble("d", 1e21)
		m.PutBool("b", false)
		m.PutEmptyBytes("y").FromRaw([]byte("abc"))
	})
	for _, kv := range []attribute.KeyValue{
		attribute.String("s", "anna"), attribute.Int("i", -5), attribute.Float64("d", 1e21), attribute.Bool("b", false), {Key: "y", Value: attribute.ByteSliceValue([]byte("abc"))},
	} {
		want, _ := r.rules.Attribute(kv)
		if got[string(kv.Key)] != want.Value.AsString() || !strings.HasPrefix(want.Value.AsString(), "hmac-") {
			t.Errorf("%s: %v, the library says %s", kv.Key, got[string(kv.Key)], want.Value.AsString())
		}
	}
}

func TestTooDeep(t *testing.T) {
	r := newRedactor(t, redact.Default())
	got := process(t, r, func(m pcommon.Map) {
		in := m
		for range redact.MaxDepth + 5 {
			in = in.PutEmptyMap("m")
		}
		in.PutStr("x", "anna@example.com")
		s := m.PutEmptySlice("s")
		for range redact.MaxDepth + 5 {
			s = s.AppendEmpty().SetEmptySlice()
		}
		s.AppendEmpty().SetStr("anna@example.com")
	})
	for key, v := range got {
		depth := 0
		for {
			if m, ok := v.(map[string]any); ok {
				v = m["m"]
			} else if s, ok := v.([]any); ok {
				v = s[0]
			} else {
				break
			}
			depth++
		}
		if v != "REDACTED" || depth != redact.MaxDepth {
			t.Errorf("%s: %v at depth %d, want REDACTED at %d", key, v, depth, redact.MaxDepth)
		}
	}
	assert.EqualValues(t, 2, r.rules.Stats().Unsettled)
}

// Keys are redacted too; keys that become equal are kept apart, and no value is lost.
func TestKeysAreRedacted(t *testing.T) {
	r := newRedactor(t, redact.Default())
	got := process(t, r, func(m pcommon.Map) {
		m.PutInt("anna@example.com", 1)
		m.PutInt("plain", 2)
		m.PutInt("bob@example.com", 3)
		m.PutInt("REDACTED.2", 4)
		m.PutEmptyMap("in").PutInt("carl@example.com", 5)
	})
	equal(t, got, map[string]any{
		"REDACTED": int64(1), "plain": int64(2), "REDACTED.2": int64(3), "REDACTED.2.2": int64(4), "in": map[string]any{"REDACTED": int64(5)},
	})
}

// OTLP does not allow a map to have a key twice, but senders may do so: both values must
// be redacted.
func TestKeysTwice(t *testing.T) {
	raw := []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"a","value":{"stringValue":"anna@example.com"}},{"key":"a","value":{"stringValue":"clean"}}]}]}]}]}`)
	td, err := (&unmarshaler).UnmarshalTraces(raw)
	require.NoError(t, err)
	if _, err := newRedactor(t, redact.Default()).process(context.Background(), td); err != nil {
		t.Fatal(err)
	}
	out, err := marshaler.MarshalTraces(td)
	require.NoError(t, err)
	if strings.Contains(string(out), "anna") || !strings.Contains(string(out), "clean") {
		t.Errorf("%s", out)
	}
}

// Spans without sensitive values stay unchanged, and nothing is allocated.
func TestCleanSpansAllocateNothing(t *testing.T) {
	td := agentTraces(10)
	r := newRedactor(t, redact.Default())
	if _, err := r.process(context.Background(), td); err != nil { // fills the cache of keys
		t.Fatal(err)
	}
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := r.process(context.Background(), td); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations for 10 clean spans, want at most 1", n)
	}
}
