package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// EnvConfig is the environment variable that FromEnv reads.
const EnvConfig = "REDACT_CONFIG"

type document struct {
	Base    string            `json:"base"`
	Without []string          `json:"without"`
	Rules   []json.RawMessage `json:"rules"`
	Allow   *AllowList        `json:"allow"`
	Hash    Hashing           `json:"hash"`
}

// Parse reads a configuration in JSON:
//
//	{
//	  "base": "default",
//	  "without": ["phone"],
//	  "rules": [{"name": "user", "keys": ["enduser.*", "user.id"], "do": "hash"}],
//	  "allow": {"safe": true, "keys": ["shop.*"]},
//	  "hash": {"key_env": "REDACT_HASH_KEY", "id": "a"}
//	}
//
// base is "default" (the rules of Default; assumed if absent) or "none";
// without names rules of it to leave out. A rule with the name of one of the
// base takes its place; others come before the base's.
func Parse(text []byte) (Config, error) {
	var d document
	if err := strict(text, &d); err != nil {
		return Config{}, fmt.Errorf("redact: configuration: %w", err)
	}
	var c Config
	switch d.Base {
	case "", "default":
		c = Default()
	case "none":
	default:
		return Config{}, fmt.Errorf("redact: base %q: want default or none", d.Base)
	}
	for _, name := range d.Without {
		i := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.Name == name })
		if i < 0 {
			return Config{}, fmt.Errorf("redact: without %q: the base has no such rule", name)
		}
		c.Rules = slices.Delete(c.Rules, i, i+1)
	}
	rules := make([]Rule, len(d.Rules))
	for i, raw := range d.Rules {
		if err := strict(raw, &rules[i]); err != nil {
			var named struct{ Name string }
			_ = json.Unmarshal(raw, &named) // for the message only
			return Config{}, fmt.Errorf("redact: rule %d %q: %w", i+1, named.Name, err)
		}
	}
	c.Rules = overlay(c.Rules, rules)
	c.Allow, c.Hash = d.Allow, d.Hash
	return c, nil
}

func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the end of the JSON value")
	}
	return nil
}

// overlay puts rules before base, or in the place of a namesake there.
func overlay(base, rules []Rule) []Rule {
	out := slices.Clone(base)
	var before []Rule
	for _, r := range rules {
		if i := slices.IndexFunc(out, func(b Rule) bool { return b.Name == r.Name }); i >= 0 && r.Name != "" {
			out[i] = r
		} else {
			before = append(before, r)
		}
	}
	return append(before, out...)
}

// Load reads a configuration from a file; see Parse for its form.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("redact: configuration: %w", err)
	}
	c, err := Parse(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// FromEnv reads the configuration that REDACT_CONFIG holds, if it begins with
// {, or else the file that it names. Without the variable it is Default.
func FromEnv() (Config, error) {
	v := strings.TrimSpace(os.Getenv(EnvConfig))
	if v == "" {
		return Default(), nil
	}
	var c Config
	var err error
	if v[0] == '{' {
		c, err = Parse([]byte(v))
	} else {
		c, err = Load(v)
	}
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", EnvConfig, err)
	}
	return c, nil
}
