package redactprocessor

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/redact"
	"github.com/tare-trace/tare/otel/redact/redacttest"
)

// The processor redacts each text of the library's corpus, in every place of a span, as
// the library does; secrets that the library catches are not in the encoded bytes.
func TestCorpusInEveryPlace(t *testing.T) {
	const perCell = 3
	r := newRedactor(t, redact.Default())
	library, err := redact.New(redact.Default())
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(20261121, 1))
	caught, all := 0, 0
	for _, class := range redacttest.Classes {
		for _, form := range redacttest.Forms {
			for _, place := range redacttest.Places {
				for range perCell {
					secret := class.Make(rng)
					text := place.Put(rng, form.Spell(secret))
					if strings.Contains(text, redacttest.Hidden(class.Name, secret)) {
						all++
					}
					if corpusText(t, r, library, place.Key, text, redacttest.Hidden(class.Name, secret)) {
						caught++
					}
				}
			}
		}
	}
	for _, spelling := range redacttest.Spellings {
		for _, name := range redacttest.SecretNames {
			secret := redacttest.Draw(rng, redacttest.Words, 12)
			text := spelling.Put(name, secret)
			all++
			if corpusText(t, r, library, "app.note", text, secret) {
				caught++
			}
		}
	}
	// As a check of the test itself: corpus.md tells what the library catches.
	if caught < all/2 {
		t.Errorf("of %d texts with secrets as they are, only %d lost theirs", all, caught)
	}
}

// Log records lose in every place what spans lose.
func TestLogRecords(t *testing.T) {
	const text = "Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789, mail jo.doe@example.com"
	r := newRedactor(t, redact.Default())
	library, err := redact.New(redact.Default())
	require.NoError(t, err)
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.SetSchemaUrl(text)
	rl.Resource().Attributes().PutStr("app.note", text)
	sl := rl.ScopeLogs().AppendEmpty()
	sl.SetSchemaUrl(text)
	sl.Scope().SetName(text)
	sl.Scope().SetVersion(text)
	sl.Scope().Attributes().PutStr("app.note", text)
	for _, set := range []func(pcommon.Value){
		func(v pcommon.Value) { v.SetStr(text) },
		func(v pcommon.Value) { v.SetEmptyMap().PutStr("app.note", text) },
		func(v pcommon.Value) { v.SetEmptySlice().AppendEmpty().SetStr(text) },
		func(v pcommon.Value) { v.SetEmptyBytes().FromRaw([]byte(text)) },
	} {
		record := sl.LogRecords().AppendEmpty()
		set(record.Body())
		record.SetSeverityText(text)
		record.SetEventName(text)
		record.Attributes().PutStr("app.note", text)
	}
	sink := new(consumertest.LogsSink)
	p, err := NewFactory().CreateLogs(t.Context(), processortest.NewNopSettings(Type), &Config{}, sink)
	require.NoError(t, err)
	require.NoError(t, p.ConsumeLogs(t.Context(), ld))
	require.NoError(t, p.Shutdown(t.Context()))
	if _, err := r.processLogs(t.Context(), ld); err != nil { // once more changes nothing
		t.Fatal(err)
	}
	got, want := sink.AllLogs()[0].ResourceLogs().At(0), library.Text(text)
	if want == text || strings.Contains(want, "abcdefghij") {
		t.Fatalf("the library leaves %q", want)
	}
	b, err := (&plog.ProtoMarshaler{}).MarshalLogs(sink.AllLogs()[0])
	if err != nil || strings.Contains(string(b), "abcdefghij") || strings.Contains(string(b), "jo.doe") != strings.Contains(want, "jo.doe") {
		t.Errorf("%q, %v", b, err)
	}
	assert.Equal(t, want, got.ScopeLogs().At(0).LogRecords().At(0).Body().Str(), "the body")
}

// corpusText reports whether the library caught the secret.
func corpusText(t *testing.T, r *redactor, library *redact.Redactor, key, text, secret string) bool {
	t.Helper()
	td, _ := oneSpan()
	for _, set := range texts(td) {
		set.set(text)
	}
	for _, m := range maps(td) {
		m.PutStr(key, text)
		m.PutEmptyBytes("app.bytes").FromRaw([]byte(text))
		slice := m.PutEmptySlice("app.slice")
		slice.AppendEmpty().SetStr(text)
		slice.AppendEmpty().SetInt(7)
		slice.AppendEmpty().SetEmptyMap().PutStr(key, text)
		m.PutEmptyMap("app.map").PutEmptyMap("deep").PutEmptySlice(key).AppendEmpty().SetStr(text)
	}
	if _, err := r.process(context.Background(), td); err != nil {
		t.Fatal(err)
	}
	free, keyed, plain := library.Text(text), attributeText(library, key, text), attributeText(library, "app.bytes", text)
	for name, at := range texts(td) {
		if got := at.get(); got != free {
			t.Errorf("%s: %q became %q, the library says %q", name, text, got, free)
		}
	}
	for name, m := range maps(td) {
		for at, want := range map[string]string{
			key: keyed, "app.bytes": plain, "app.slice/0": plain, "app.slice/2/" + key: keyed, "app.map/deep/" + key + "/0": keyed,
		} {
			if got := find(m, at); got != want {
				t.Errorf("%s %s: %q became %q, the library says %q", name, at, text, got, want)
			}
		}
	}
	return !strings.Contains(free, secret) && strings.Contains(text, secret)
}

func attributeText(library *redact.Redactor, key, text string) string {
	kv, _ := library.Attribute(attribute.String(key, text))
	return kv.Value.AsString()
}

// find follows a path of keys and indices.
func find(m pcommon.Map, path string) string {
	parts := strings.Split(path, "/")
	v, ok := m.Get(parts[0])
	for _, p := range parts[1:] {
		switch {
		case !ok:
		case v.Type() == pcommon.ValueTypeSlice:
			v = v.Slice().At(int(p[0] - '0'))
		case v.Type() == pcommon.ValueTypeMap:
			v, ok = v.Map().Get(p)
		default:
			ok = false
		}
	}
	switch {
	case !ok:
		return "not there"
	case v.Type() == pcommon.ValueTypeBytes:
		return string(v.Bytes().AsRaw())
	}
	return v.Str()
}
