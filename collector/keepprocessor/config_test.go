package keepprocessor

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"
)

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

func TestConfigFromYAML(t *testing.T) {
	got, err := fromYAML(t, `
errors: server
slow:
  slower_than: 2s
  operations:
    - {service: report, name: "GET /monthly/*", slower_than: 1m}
  learn: {quantile: 0.95, operations: 10, after: 100, at_least: 5ms}
rare: {first: 5, interval: 1h, at_most: 7}
rules:
  - {service: shop, name: "GET /health*", kind: server, root: true, probability: 0}
  - {attributes: {shop.customer.tier: gold}}
incomplete: drop
share: {probability: 0.5, traces_per_second: 50, adapt: 20s}
remember: 1000
`)
	require.NoError(t, err)
	want := &Config{
		Errors: ErrorsServer,
		Slow: Slow{SlowerThan: 2 * time.Second, Operations: []Operation{{Service: "report", Name: "GET /monthly/*", SlowerThan: time.Minute}},
			Learn: Learn{Quantile: 0.95, Operations: 10, After: 100, AtLeast: 5 * time.Millisecond}},
		Rare:       Rare{First: 5, Interval: time.Hour, AtMost: 7},
		Rules:      []Rule{{Service: "shop", Name: "GET /health*", Kind: "server", Root: true, Probability: ptr(0.0)}, {Attributes: map[string]string{"shop.customer.tier": "gold"}}},
		Incomplete: IncompleteDrop,
		Share:      Share{Probability: 0.5, TracesPerSecond: 50, Adapt: 20 * time.Second},
		Remember:   1000,
	}
	assert.Equal(t, want, got)
}

// The configuration in the package comment is valid.
func TestConfigOfThePackageComment(t *testing.T) {
	_, text, _ := strings.Cut(readFile(t, "doc.go"), "tare_keep:\n")
	text, _, _ = strings.Cut(text, "//\n")
	text = strings.ReplaceAll(text, "//\t    ", "")
	if c, err := fromYAML(t, text); err != nil || c.Share.TracesPerSecond != 50 || len(c.Rules) != 2 {
		t.Errorf("%v, of:\n%s", err, text)
	}
}

func TestConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"errors: some":                                      `errors is "some"; use any, root, server or none`,
		"incomplete: maybe":                                 `incomplete is "maybe"; use keep, share or drop`,
		"slow: {slower_than: -1s}":                          `slower_than is -1s`,
		"slow: {operations: [{slower_than: 1s}]}":           `operation 1: has neither service nor name`,
		"slow: {operations: [{name: x, slower_than: -1s}]}": `operation 1: slower_than is -1s`,
		"slow: {operations: [{name: \"~(\"}]}":              `operation 1: name: pattern`,
		"slow: {operations: [{service: \"~(\"}]}":           `operation 1: service: pattern`,
		"slow: {learn: {quantile: 0.3}}":                    `quantile is 0.3`,
		"slow: {learn: {quantile: 1}}":                      `quantile is 1`,
		"slow: {learn: {operations: 0}}":                    `operations is 0`,
		"slow: {learn: {after: -1}}":                        `after is -1`,
		"slow: {learn: {at_least: -1s}}":                    `at_least is -1s`,
		"rare: {first: 256}":                                `first is 256`,
		"rare: {first: -1}":                                 `first is -1`,
		"rare: {interval: 1ms}":                             `interval is 1ms`,
		"rare: {at_most: 0}":                                `at_most is 0`,
		"rules: [{}]":                                       `rule 1: has no condition`,
		"rules: [{name: a}, {kind: master}]":                `rule 2: kind "master"`,
		"rules: [{name: \"~(\"}]":                           `rule 1: name: pattern`,
		"rules: [{service: \"~(\"}]":                        `rule 1: service: pattern`,
		"rules: [{name: a, probability: 2}]":                `rule 1: probability is 2`,
		"rules: [{name: a, probability: -0.1}]":             `rule 1: probability is -0.1`,
		"rules: [{attributes: {a: \"\"}}]":                  `rule 1: attribute a: the pattern is empty`,
		"rules: [{colour: a}]":                              `colour`,
		"share: {probability: 1.5}":                         `probability is 1.5`,
		"share: {probability: -1}":                          `probability is -1`,
		"share: {traces_per_second: -1}":                    `traces_per_second is -1`,
		"share: {traces_per_second: 1, adapt: 1ms}":         `adapt is 1ms`,
		"remember: -1":                                      `remember is -1`,
		"remember: 100000000":                               `remember is 100000000`,
		"shares: {}":                                        `shares`,
	} {
		if _, err := fromYAML(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %s", text, err, want)
		}
	}
	c := defaultConfig()
	c.Errors, c.Incomplete, c.Share.Probability, c.Slow.Learn.Quantile = "x", "y", math.NaN(), math.NaN()
	err := c.Validate()
	for _, want := range []string{"errors is", "incomplete is", "probability is NaN", "quantile is NaN"} {
		assert.ErrorContains(t, err, want)
	}
}

// The other values of a feature that is turned off are not checked.
func TestConfigTurnedOff(t *testing.T) {
	for _, text := range []string{"{}", "slow: {learn: {quantile: 0, operations: 0}}", "rare: {first: 0, interval: 0s, at_most: 0}", "share: {adapt: 0s}", "rules: [{name: a, probability: 0}]"} {
		if _, err := fromYAML(t, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestKeepsAll(t *testing.T) {
	for text, want := range map[string]bool{
		"{}":                                   true,
		"errors: none":                         true,
		"rules: [{name: a}]":                   true,
		"rules: [{name: a, probability: 0.9}]": false,
		"share: {probability: 0.9}":            false,
		"share: {traces_per_second: 1000}":     false,
		"incomplete: drop":                     false,
		"incomplete: keep":                     true,
	} {
		c, err := fromYAML(t, text)
		require.NoError(t, err)
		assert.Equal(t, want, c.keepsAll(), "%s: keeps all", text)
	}
}
