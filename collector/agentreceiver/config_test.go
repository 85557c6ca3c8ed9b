package agentreceiver

import (
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/agent/config"
)

func read(t *testing.T, text string, opts ...Option) (*Config, error) {
	t.Helper()
	var keys map[string]any
	if err := yaml.Unmarshal([]byte(text), &keys); err != nil {
		t.Fatal(err)
	}
	cfg := NewFactory(opts...).CreateDefaultConfig().(*Config)
	err := confmap.NewFromStringMap(keys).Unmarshal(cfg)
	if err == nil {
		err = confmap.Validate(cfg)
	}
	return cfg, err
}

func TestConfig(t *testing.T) {
	if err := componenttest.CheckConfigStruct(NewFactory().CreateDefaultConfig()); err != nil {
		t.Error(err)
	}
	cfg, err := read(t, "services: [{name: shop, ports: [8080, 9000-9010]}]\nsampler_arg: 0.5\npayload: off\nqueue: 7")
	if err != nil {
		t.Fatal(err)
	}
	a := cfg.Agent
	if len(a.Services) != 1 || len(a.Services[0].Ports) != 2 || a.SamplerArg != 0.5 || a.Sampler != "parentbased_traceidratio" || a.Payload || a.Queue != 7 {
		t.Errorf("%+v", a)
	}
	shown := confmap.New()
	if err := cfg.Marshal(shown); err != nil || shown.Get("sampler_arg") != 0.5 {
		t.Errorf("shown as %v, %v", shown.ToStringMap(), err)
	}
}

// Every key of the example is one of the receiver's, except two that it names.
func TestExampleFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/tare.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	delete(keys, "export")
	delete(keys, "print")
	out, err := yaml.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, string(out)); err != nil {
		t.Error(err)
	}
}

func TestConfigThatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"nothing selected": {"sampler_arg: 0.5", "services"},
		"empty":            {"{}", "services"},
		"unknown key":      {"servces: []", `receivers::tare_agent::(key): "servces"`},
		"export":           {"services: [{ports: [1]}]\nexport: {protocol: grpc}", "receivers::tare_agent::export"},
		"print":            {"services: [{ports: [1]}]\nprint: tree", "receivers::tare_agent::print"},
		"port":             {"services: [{ports: [0]}]", "65535"},
	} {
		if _, err := read(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	given, err := config.FromKeys("x", map[string]any{"services": []any{map[string]any{"ports": []any{80}}}})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := read(t, "{}", Configured(given, nil)); err != nil || c.Agent.Services[0].Ports[0].First != 80 {
		t.Errorf("configured by a command: %v", err)
	}
	if _, err := read(t, "payload: off", Configured(given, nil)); err == nil || !strings.Contains(err.Error(), "flags") {
		t.Errorf("keys besides a command's: %v", err)
	}
}
