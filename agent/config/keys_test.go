package config_test

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/agent/config"
)

// The example file read as a file, and as keys that somebody else decoded.
func TestKeysAreTheFiles(t *testing.T) {
	const example = "../../deploy/tare.example.yaml"
	want, err := config.Load(nil, []string{"TARE_CONFIG=" + example})
	if err != nil {
		t.Fatal(err)
	}
	want.File = ""
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	got, err := config.FromKeys("receivers::tare_agent", keys)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestKeysThatAreWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		keys map[string]any
		want string
	}{
		"unknown": {map[string]any{"servces": 1}, `here::(key): "servces"`},
		"deep":    {map[string]any{"services": []any{map[string]any{"ports": []any{70000}}}}, `here::services[0].ports[0]: "70000"`},
		"value":   {map[string]any{"payload": "some"}, `here::payload: "some"`},
	} {
		if _, err := config.FromKeys("here", tt.keys); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := config.FromKeys("here", map[string]any{"sampler_arg": 0.25})
	if !errors.Is(err, config.ErrNoServices) || c.Sampler != "parentbased_traceidratio" || c.SamplerArg != 0.25 {
		t.Errorf("nothing selected: %+v, %v", c, err)
	}
}

func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		file string
		args []string
		want string
	}{
		{"", nil, config.EventsOff},
		{"events: on", nil, config.EventsOn},
		{"events: true", nil, config.EventsOn}, // it was a boolean once
		{"events: only", nil, config.EventsOnly},
		{"events: only", []string{"--events"}, config.EventsOn},
		{"", []string{"--events=only"}, config.EventsOnly},
	} {
		c, err := load(t, tt.file, nil, append([]string{"--port", "1"}, tt.args...)...)
		if err != nil || c.Events != tt.want {
			t.Errorf("%q %v: %q, %v", tt.file, tt.args, c.Events, err)
		}
	}
	if _, err := load(t, "events: some", nil); err == nil || !strings.Contains(err.Error(), "off, on, only") {
		t.Errorf("%v", err)
	}
}
