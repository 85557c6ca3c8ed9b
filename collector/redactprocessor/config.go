package redactprocessor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/config/configopaque"
	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/otel/redact"
)

// Config of tare_redact; the zero value is the library's default. The fields mean what
// they mean in package redact.
type Config struct {
	// RulesFile names a JSON or YAML file with base, without, rules, allow and hash. The
	// configuration then must not have them itself, except Hash if the file has none.
	RulesFile string `mapstructure:"rules_file"`

	// Base is "default" (also if empty) or "none".
	Base string `mapstructure:"base"`
	// Without names rules of the base to leave out.
	Without []string `mapstructure:"without"`
	// Rules come before those of the base, or replace the one with the same name.
	Rules []Rule `mapstructure:"rules"`
	// Allow, if set, removes all keys except those listed and Tare's own.
	Allow *AllowList `mapstructure:"allow"`
	Hash  Hashing    `mapstructure:"hash"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Rule is a [redact.Rule].
type Rule struct {
	Name    string   `mapstructure:"name"`
	Keys    []string `mapstructure:"keys"`
	Names   []string `mapstructure:"names"`
	Detect  string   `mapstructure:"detect"`
	Pattern string   `mapstructure:"pattern"`
	Except  []string `mapstructure:"except"`
	Do      string   `mapstructure:"do"`
	Text    string   `mapstructure:"text"`
	Keep    int      `mapstructure:"keep"`
	Length  int      `mapstructure:"length"`
	V4      int      `mapstructure:"v4"`
	V6      int      `mapstructure:"v6"`

	_ struct{}
}

// AllowList is a [redact.AllowList].
type AllowList struct {
	Keys []string `mapstructure:"keys"`
	Safe bool     `mapstructure:"safe"`

	_ struct{}
}

// Hashing is a [redact.Hashing].
type Hashing struct {
	Key     configopaque.String `mapstructure:"key"`
	KeyEnv  string              `mapstructure:"key_env"`
	KeyFile string              `mapstructure:"key_file"`
	ID      string              `mapstructure:"id"`
	Bits    int                 `mapstructure:"bits"`

	_ struct{}
}

// ownKeys are Tare's own attributes: numbers, states and reasons. An allow list always
// includes them; rules apply to them as to others.
const ownKeys = "tare.*"

// Validate implements the collector's check of configurations. It reads the rules file
// and compiles everything, but does not read the hash key.
func (c *Config) Validate() error {
	rc, err := c.load()
	if err != nil {
		return err
	}
	if h := &rc.Hash; h.Key == "" && (h.KeyEnv == "") != (h.KeyFile == "") {
		h.Key, h.KeyEnv, h.KeyFile = "no secret, only so long", "", ""
	}
	_, err = redact.New(rc)
	return err
}

// load returns the library's configuration.
func (c *Config) load() (redact.Config, error) {
	inline := c.Base != "" || len(c.Without) > 0 || len(c.Rules) > 0 || c.Allow != nil
	var rc redact.Config
	var err error
	switch {
	case c.RulesFile != "" && inline:
		return rc, errors.New("rules_file stands beside base, without, rules or allow; put them into the file, or leave it out")
	case c.RulesFile != "":
		rc, err = loadFile(c.RulesFile)
	default:
		rc, err = c.inline()
	}
	if err != nil {
		return rc, err
	}
	if c.Hash != (Hashing{}) {
		if rc.Hash != (redact.Hashing{}) {
			return rc, fmt.Errorf("hash stands here and in %s; leave one out", c.RulesFile)
		}
		rc.Hash = redact.Hashing{Key: string(c.Hash.Key), KeyEnv: c.Hash.KeyEnv, KeyFile: c.Hash.KeyFile, ID: c.Hash.ID, Bits: c.Hash.Bits}
	}
	if rc.Allow != nil {
		if len(rc.Allow.Keys) == 0 && !rc.Allow.Safe {
			return rc, errors.New("allow lists no keys: nothing would leave; give keys, or safe: true")
		}
		rc.Allow.Keys = append([]string{ownKeys}, rc.Allow.Keys...)
	}
	return rc, nil
}

// inline passes the rules to the library's own parser, which knows what base and without
// mean.
func (c *Config) inline() (redact.Config, error) {
	document := struct {
		Base    string            `json:"base,omitempty"`
		Without []string          `json:"without,omitempty"`
		Rules   []redact.Rule     `json:"rules,omitempty"`
		Allow   *redact.AllowList `json:"allow,omitempty"`
	}{Base: c.Base, Without: c.Without}
	for _, r := range c.Rules {
		document.Rules = append(document.Rules, redact.Rule{
			Name: r.Name, Keys: r.Keys, Names: r.Names, Detect: redact.Detector(r.Detect), Pattern: r.Pattern, Except: r.Except,
			Do: redact.Action(r.Do), Text: r.Text, Keep: r.Keep, Length: r.Length, V4: r.V4, V6: r.V6,
		})
	}
	if c.Allow != nil {
		document.Allow = &redact.AllowList{Keys: c.Allow.Keys, Safe: c.Allow.Safe}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return redact.Config{}, err
	}
	return redact.Parse(text)
}

// loadFile reads JSON or YAML. YAML is converted to JSON for the library's parser, so
// that both have the same keys and the same errors.
func loadFile(path string) (redact.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return redact.Config{}, fmt.Errorf("rules_file: %w", err)
	}
	if !json.Valid(text) {
		var document map[string]any
		if err := yaml.Unmarshal(text, &document); err != nil {
			return redact.Config{}, fmt.Errorf("rules_file %s: %w", path, err)
		}
		if text, err = json.Marshal(document); err != nil {
			return redact.Config{}, fmt.Errorf("rules_file %s: %w", path, err)
		}
	}
	c, err := redact.Parse(text)
	if err != nil {
		return redact.Config{}, fmt.Errorf("rules_file %s: %w", path, err)
	}
	return c, nil
}
