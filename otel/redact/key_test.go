package redact

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/redact/redacttest"
)

// What Key says of a value is what Attribute makes of it.
func checkKey(t *testing.T, r *Redactor, kv attribute.KeyValue) {
	t.Helper()
	want, leaves := r.Attribute(kv)
	k := r.Key(string(kv.Key))
	assert.Equal(t, leaves, k.Leaves(true), "%s: leaves", kv.Key)
	if !leaves {
		return
	}
	if k.Name() != string(want.Key) {
		t.Errorf("%s: name %q, want %q", kv.Key, k.Name(), want.Key)
	}
	got := kv.Value
	switch v := kv.Value; {
	case v.Type() == attribute.STRING:
		got = attribute.StringValue(k.Text(v.AsString()))
	case k.Whole():
		got = attribute.StringValue(k.Text(v.String()))
	case v.Type() == attribute.INT64:
		if text, changed := k.Int(v.AsInt64()); changed {
			got = attribute.StringValue(text)
		}
	case v.Type() == attribute.FLOAT64:
		if text, changed := k.Float(v.AsFloat64()); changed {
			got = attribute.StringValue(text)
		}
	case v.Type() == attribute.BYTESLICE:
		in := v.AsByteSlice()
		out, changed := k.Bytes(in)
		if changed == bytes.Equal(in, out) {
			t.Errorf("%s: bytes %q became %q, changed %v", kv.Key, in, out, changed)
		}
		got = attribute.ByteSliceValue(out)
	}
	if got != want.Value {
		t.Errorf("%s=%s: %s, want %s", kv.Key, kv.Value.String(), got.String(), want.Value.String())
	}
}

var keyTestKeys = []attribute.Key{
	"k", "db.query.text", "client.address", "cut", "keep", "password", "user.id", "process.command_line", "anna@example.com", "app.request.body",
}

func TestKeyIsAttribute(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	listed := full()
	listed.Allow = &AllowList{Keys: []string{"k", "cut", "user.*", "anna*"}}
	for _, r := range []*Redactor{mustNew(t, full()), everyAction(t), mustNew(t, listed)} {
		for range 3000 {
			class := redacttest.Classes[rng.IntN(len(redacttest.Classes))]
			text := redacttest.Places[rng.IntN(len(redacttest.Places))].Put(rng, class.Make(rng))
			v := []attribute.Value{
				attribute.StringValue(text), attribute.StringValue(""), attribute.ByteSliceValue([]byte(text)), attribute.ByteSliceValue([]byte("\xff" + text)),
				attribute.BoolValue(true), attribute.Int64Value(int64(rng.Uint64())), attribute.Int64Value(4111111111111111),
				attribute.Float64Value(4111111111111111), attribute.Float64Value(rng.NormFloat64()),
			}[rng.IntN(9)]
			checkKey(t, r, attribute.KeyValue{Key: keyTestKeys[rng.IntN(len(keyTestKeys))], Value: v})
		}
	}
}

func TestKeyCounts(t *testing.T) {
	c := full()
	c.Allow = &AllowList{Keys: []string{"process.*"}}
	r := mustNew(t, c)
	r.Key("shop.note").Leaves(true)
	r.Key("shop.note").Leaves(false) // inside a map, the allow list does not hold
	r.Key("process.command_line").Leaves(true)
	r.Key("process.command_line").Leaves(false)
	r.Key("process.x").Int(4111111111111111)
	assert.Equal(t, maskText, r.TooDeep(), "too deep")
	s := r.Stats()
	if s.NotAllowed != 1 || s.Redacted["command-line"] != 2 || s.Redacted["card"] != 1 || s.Unsettled != 1 {
		t.Errorf("%+v", s)
	}
}

func TestKeyOfNumbersNeedsCards(t *testing.T) {
	r := mustNew(t, Config{})
	if text, changed := r.Key("k").Int(4111111111111111); changed {
		t.Errorf("without rules, a number became %q", text)
	}
}

func FuzzKey(f *testing.F) {
	f.Add("k", []byte("anna@example.com"), int64(4111111111111111), 0.0)
	f.Add("password", []byte("\xff"), int64(-1), 4111111111111111.0)
	f.Add("cut", []byte(`{"password":"hunter2hunter2"}`), int64(0), 1e300)
	plain, mixed := mustNew(f, full()), everyAction(f)
	f.Fuzz(func(t *testing.T, key string, text []byte, n int64, x float64) {
		if x != x { // no number equals itself
			return
		}
		for _, r := range []*Redactor{plain, mixed} {
			for _, v := range []attribute.Value{attribute.StringValue(string(text)), attribute.ByteSliceValue(text), attribute.Int64Value(n), attribute.Float64Value(x)} {
				checkKey(t, r, attribute.KeyValue{Key: attribute.Key(key), Value: v})
			}
		}
	})
}
