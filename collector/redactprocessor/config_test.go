package redactprocessor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/otel/redact"
	"github.com/tare-trace/tare/span/semconv"
)

const hashKey = "a secret of sufficient length"

func fromYAML(t testing.TB, text string) (*Config, error) {
	t.Helper()
	var raw map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &raw))
	c := NewFactory().CreateDefaultConfig().(*Config)
	if err := confmap.NewFromStringMap(raw).Unmarshal(c); err != nil {
		return nil, err
	}
	return c, c.Validate()
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDefaultIsTheLibrarys(t *testing.T) {
	c, err := fromYAML(t, "{}")
	require.NoError(t, err)
	got, err := c.load()
	require.NoError(t, err)
	assert.Equal(t, redact.Default(), got)
}

const everything = `
base: default
without: [phone]
rules:
  - {name: user, keys: ["enduser.*", user.id], do: hash}
  - {name: order, pattern: "ORD-[0-9]{8}", do: keep, keep: 2, except: [order.public]}
  - {name: param, names: [debug], do: mask, text: "-"}
  - {name: short, keys: [note], do: truncate, length: 5}
  - {name: net, detect: ip, keys: [addr], do: network, v4: 8, v6: 16}
allow: {safe: true, keys: ["shop.*", note, user.id]}
hash: {key: "` + hashKey + `", id: a, bits: 128}
`

// The collector's YAML, a file in YAML and one in JSON say the same.
func TestFormsAgree(t *testing.T) {
	inline, err := fromYAML(t, everything)
	require.NoError(t, err)
	want, err := inline.load()
	require.NoError(t, err)
	if len(want.Rules) != len(redact.Default().Rules)+3 || want.Hash.Bits != 128 || !slices.Contains(want.Allow.Keys, "shop.*") || !want.Allow.Safe {
		t.Errorf("%+v", want)
	}
	const asJSON = `{"base":"default","without":["phone"],"rules":[
		{"name":"user","keys":["enduser.*","user.id"],"do":"hash"},
		{"name":"order","pattern":"ORD-[0-9]{8}","do":"keep","keep":2,"except":["order.public"]},
		{"name":"param","names":["debug"],"do":"mask","text":"-"},
		{"name":"short","keys":["note"],"do":"truncate","length":5},
		{"name":"net","detect":"ip","keys":["addr"],"do":"network","v4":8,"v6":16}],
		"allow":{"safe":true,"keys":["shop.*","note","user.id"]},
		"hash":{"key":"` + hashKey + `","id":"a","bits":128}}`
	for name, text := range map[string]string{"rules.yaml": everything, "rules.json": asJSON} {
		c, err := fromYAML(t, "rules_file: "+write(t, name, text))
		require.NoError(t, err)
		if got, err := c.load(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, want)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	file := write(t, "r.yaml", "rules: [{name: a, keys: [x], do: shred}]")
	hashed := write(t, "h.json", `{"hash":{"key":"`+hashKey+`"}}`)
	for text, want := range map[string]string{
		"base: standard":                         `base "standard": want default or none`,
		"without: [fax]":                         `"fax"`,
		"rules: [{name: a, do: mask}]":           `looks for nothing`,
		"rules: [{keys: [a], do: mask}]":         `has no name`,
		"rules: [{name: a, colour: red}]":        `colour`,
		"shape: round":                           `shape`,
		"allow: {}":                              `allow lists no keys`,
		"rules_file: /does/not/exist":            `rules_file: open /does/not/exist`,
		"rules_file: " + file:                    `shred`,
		"{rules_file: " + file + ", base: none}": `rules_file stands beside`,
		"{rules_file: " + hashed + ", hash: {key: \"" + hashKey + "\"}}": `leave one out`,
		"rules: [{name: a, keys: [x], do: hash}]":                        `exactly one of key, key_env and key_file`,
		"hash: {key: short}":                              `holds 5 bytes`,
		"hash: {key_env: A, key_file: B}":                 `exactly one of key`,
		"hash: {key_env: A, bits: 3}":                     `bits 3`,
		"rules: [{name: a, pattern: \"(\", do: mask}]":    `missing closing`,
		"rules_file: " + write(t, "b.yaml", "a: [\x00"):   `rules_file`,
		"rules_file: " + write(t, "c.yaml", "1: {2: 3}"):  `rules_file`,
		"rules_file: " + write(t, "d.json", `{"rul":[]}`): `rul`,
	} {
		_, err := fromYAML(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), hashKey) {
			t.Errorf("%s: the error shows the key: %v", text, err)
		}
	}
}

// The hash key's source need not exist when the configuration is checked, only when the
// collector starts; the key is never shown.
func TestHashKey(t *testing.T) {
	const use = "rules: [{name: user, keys: [user.id], do: hash}]\n"
	hash := func(c *Config) string {
		td, s := oneSpan()
		s.Attributes().PutStr("user.id", "anna")
		v, _ := run(t, c, td).ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().Get("user.id")
		return v.Str()
	}
	literal, err := fromYAML(t, use+"hash: {key: \""+hashKey+"\"}")
	require.NoError(t, err)
	file, err := fromYAML(t, use+"hash: {key_file: "+write(t, "key", hashKey+"\n")+"}")
	require.NoError(t, err)
	env, err := fromYAML(t, use+"hash: {key_env: TARE_TEST_REDACT_KEY}")
	require.NoError(t, err, "not set yet")
	if _, err := NewFactory().CreateTraces(context.Background(), processortest.NewNopSettings(Type), env, consumertest.NewNop()); err == nil || !strings.Contains(err.Error(), "TARE_TEST_REDACT_KEY") {
		t.Errorf("started without a key: %v", err)
	}
	t.Setenv("TARE_TEST_REDACT_KEY", hashKey)
	a, b, c := hash(literal), hash(file), hash(env)
	if a != b || b != c || !strings.HasPrefix(a, "hmac-") {
		t.Errorf("hashes differ: %s, %s, %s", a, b, c)
	}

	shown := confmap.New()
	require.NoError(t, shown.Marshal(literal))
	for _, text := range []string{fmt.Sprint(shown.ToStringMap()), fmt.Sprintf("%v %+v %#v", *literal, *literal, *literal)} {
		assert.NotContains(t, text, hashKey, "the key is shown")
	}
}

// An allow list keeps Tare's own attributes, and nothing unknown.
func TestAllowList(t *testing.T) {
	c, err := fromYAML(t, "allow: {safe: true, keys: [\"shop.*\"]}")
	require.NoError(t, err)
	td, s := oneSpan()
	keys := []string{"service.name", "shop.id", "http.request.method", semconv.TraceState, semconv.KeepReason}
	for _, key := range append([]string{"app.note", "tareweight"}, keys...) {
		s.Attributes().PutStr(key, "x")
	}
	s.Attributes().PutEmptyMap("shop.map").PutStr("anything", "x") // the list is about outermost keys
	got := run(t, c, td).ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes()
	for _, key := range append(keys, "shop.map") {
		if _, ok := got.Get(key); !ok {
			t.Errorf("%s was dropped", key)
		}
	}
	assert.Equal(t, len(keys)+1, got.Len(), "left: %v", got.AsRaw())
}

func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	set := processortest.NewNopSettings(Type)
	set.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	c, err := fromYAML(t, "{base: none, rules: [{name: mail, detect: email, do: mask}, {name: secret, keys: [secret], do: remove}], allow: {keys: [a, secret]}}")
	require.NoError(t, err)
	p, err := NewFactory().CreateTraces(context.Background(), set, c, consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	td, s := oneSpan()
	s.Attributes().PutStr("a", "anna@example.com, bob@example.com")
	s.Attributes().PutStr("secret", "x")
	s.Attributes().PutStr("b", "x")
	in := s.Attributes()
	for range redact.MaxDepth + 1 {
		in = func(m pcommon.Map) pcommon.Map { return m.PutEmptyMap("a") }(in)
	}
	s.Attributes().PutStr("a2", "x")
	require.NoError(t, p.ConsumeTraces(context.Background(), td))
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &rm))
	got := map[string]int64{}
	for _, m := range ownMetrics(&rm) {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			rule, _ := p.Attributes.Value("rule")
			got[m.Name+" "+rule.AsString()] = p.Value
		}
	}
	want := map[string]int64{"tare_redact_redacted mail": 0, "tare_redact_redacted secret": 1, "tare_redact_not_allowed ": 2, "tare_redact_unsettled ": 1}
	assert.Equal(t, want, got)
	require.NoError(t, p.Shutdown(context.Background()))
}

// ownMetrics are those of this package: the collector adds others.
func ownMetrics(rm *metricdata.ResourceMetrics) []metricdata.Metrics {
	for _, s := range rm.ScopeMetrics {
		if strings.HasSuffix(s.Scope.Name, "/redactprocessor") {
			return s.Metrics
		}
	}
	return nil
}
