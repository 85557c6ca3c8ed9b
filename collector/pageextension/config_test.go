package pageextension

import (
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
)

// load reads a section as a collector does.
func load(t *testing.T, section map[string]any) *Config {
	t.Helper()
	cfg := defaultConfig().(*Config)
	if err := confmap.NewFromStringMap(section).Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDefaultConfig(t *testing.T) {
	cfg := load(t, map[string]any{})
	if err := componenttest.CheckConfigStruct(cfg); err != nil {
		t.Error(err)
	}
	if err := confmap.Validate(cfg); err != nil {
		t.Error(err)
	}
	if cfg.ServerConfig.NetAddr.Endpoint != "127.0.0.1:4680" || cfg.Store.String() != "tare_store" {
		t.Errorf("got %+v", cfg)
	}
}

func TestEverySetting(t *testing.T) {
	cfg := load(t, map[string]any{
		"endpoint": "0.0.0.0:443", "store": "tare_store/other", "health": []any{"http://127.0.0.1:9464/metrics"},
		"hosts": []any{"tare.example"}, "query_timeout": "3s", "write_timeout": "7s",
		"auth": map[string]any{"authenticator": "basicauth/page"},
		"tls":  map[string]any{"cert_file": "c", "key_file": "k"},
	})
	if err := confmap.Validate(cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Store.String() != "tare_store/other" || cfg.Health[0] != "http://127.0.0.1:9464/metrics" || cfg.Hosts[0] != "tare.example" ||
		cfg.QueryTimeout.String() != "3s" || cfg.ServerConfig.WriteTimeout.String() != "7s" ||
		cfg.ServerConfig.Auth.Get().Config.AuthenticatorID.String() != "basicauth/page" ||
		cfg.ServerConfig.TLS.Get().Config.CertFile != "c" {
		t.Errorf("got %+v", cfg)
	}
	for _, key := range []string{"helth", "tsl", "Auth2"} {
		err := confmap.NewFromStringMap(map[string]any{key: map[string]any{"a": "b"}}).Unmarshal(defaultConfig())
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(key)) {
			t.Errorf("unknown key %s: %v", key, err)
		}
	}
}

func TestConfigThatMustNotBe(t *testing.T) {
	auth := map[string]any{"authenticator": "basicauth"}
	tls := map[string]any{"cert_file": "c", "key_file": "k"}
	for _, c := range []struct {
		section map[string]any
		want    []string // nil: it may be
	}{
		{map[string]any{"endpoint": "localhost:4680"}, nil},
		{map[string]any{"endpoint": "[::1]:4680"}, nil},
		{map[string]any{"endpoint": "127.1.2.3:0"}, nil},
		{map[string]any{"endpoint": "/run/tare.sock", "transport": "unix"}, nil},
		{map[string]any{"endpoint": "10.0.0.1:4680", "auth": auth, "tls": tls}, nil},
		{map[string]any{"endpoint": "0.0.0.0:4680"}, []string{"other machines", "`auth`", "`tls`", "127.0.0.1:4680"}},
		{map[string]any{"endpoint": ":4680"}, []string{"other machines"}},
		{map[string]any{"endpoint": "[::]:4680"}, []string{"other machines"}},
		{map[string]any{"endpoint": "tare.example:4680"}, []string{"other machines"}},
		{map[string]any{"endpoint": "localhost.evil.example:4680"}, []string{"other machines"}},
		{map[string]any{"endpoint": "10.0.0.1:4680", "auth": auth}, []string{"set `tls`"}},
		{map[string]any{"endpoint": "10.0.0.1:4680", "tls": tls}, []string{"set `tokens`", "or `auth`"}},
		{map[string]any{"endpoint": "4680"}, []string{"host:port"}},
		{map[string]any{"endpoint": "127.0.0.1:4680", "transport": "udp"}, []string{"over tcp"}},
		{map[string]any{"health": []any{"127.0.0.1:9464"}}, []string{"`health`", "http://127.0.0.1:9464/metrics"}},
		{map[string]any{"hosts": []any{"https://a/"}}, []string{"`hosts`", "without scheme"}},
		{map[string]any{"query_timeout": "0s"}, []string{"query_timeout"}},
		{map[string]any{"query_timeout": "1h"}, []string{"query_timeout"}},
	} {
		err := confmap.Validate(load(t, c.section))
		if (err == nil) != (c.want == nil) {
			t.Errorf("%v: %v", c.section, err)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.section, err, want)
			}
		}
	}
	cfg := defaultConfig().(*Config)
	cfg.Store = component.ID{}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "`store`") {
		t.Errorf("no store: %v", err)
	}
}
